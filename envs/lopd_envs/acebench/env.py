"""`AceBenchEnv`: ACEBench's tasks as an environment, with the official and a strict score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from lopd_envs.acebench.corpus import MULTI_STEP, MULTI_TURN, Corpus, Row
from lopd_envs.acebench.notation import tool_calls, write_calls
from lopd_envs.acebench.oracle import impossible, solve
from lopd_envs.acebench.overall import published
from lopd_envs.acebench.prompt import FINISH
from lopd_envs.acebench.splits import split_rows, split_tasks
from lopd_envs.acebench.tools import OfferedTools, SceneTools
from lopd_envs.acebench.user import User, Users
from lopd_envs.acebench.verdict import agent_verdict, reply_verdict
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.episode import Episode
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.messages import AssistantMessage, Message, Observation
from lopd_gym.tasks import TRAIN_SPLIT, Check, Outcome, Task, Termination
from lopd_gym.tools import Toolset

Scoring = Literal["official", "strict"]
Protocol = Literal["calls", "text"]

RULES = EpisodeRules(
    max_turns=20,
    max_parse_errors=0,
    at_limit="score",
    several_calls="all",
    final_text="marker",
    final_marker=FINISH,
)
"""Upstream ends an agent episode after 40 messages of all roles: 20 of the agent's turns."""


class AceBenchEnv(ToolEnv):
    """ACEBench in one language.

    Splits are named after the categories, the parts of the benchmark (``normal``, ``special``,
    ``agent``, ``all``), and ``train`` and ``test``, which are our own.

    Args:
        corpus: The data.
        split: Name of a split.
        rules: Rules of an agent episode; by default upstream's.
        scoring: Which of the two verdicts is the score; both are checks and measures.
        protocol: Whether functions are offered as tools, or listed in the system message and
            called in ACEBench's notation. Replies in either form are always understood.
        users: Plays the users of ``agent_multi_turn``; without them, nothing that holds such tasks
            can be played, and ``train`` and ``test`` hold none.

    Raises:
        UsageError: No such split, or one that needs a user where there is none.
    """

    name: ClassVar[str] = "acebench"

    def __init__(
        self,
        corpus: Corpus,
        split: str = TRAIN_SPLIT,
        rules: EpisodeRules | None = None,
        scoring: Scoring = "official",
        protocol: Protocol = "calls",
        users: Users | None = None,
    ) -> None:
        super().__init__(split, rules or RULES)
        self._corpus = corpus
        self._scoring = scoring
        self._protocol = protocol
        self._users = users
        self._user: User | None = None
        self._rows = split_rows(corpus, with_user=users is not None)
        self._trace: list[str] = []
        self._reply = AssistantMessage()
        self._measures: dict[str, float] = {}
        self.tasks(split)
        if users is None and self._needs_user():
            raise UsageError(
                f"The split '{split}' holds tasks with a user, who has to be played: name a model, "
                "with --set env.user=openai:NAME --set env.user_url=URL or, one that runs here, as "
                "--model takes it."
            )

    def _needs_user(self) -> bool:
        return any(row.category == MULTI_TURN for row in self._rows[self.split])

    @property
    def label(self) -> str:
        """The language, and what keeps a score from being comparable with published ones."""
        label = f"{self.name}:{self._corpus.language}"
        if not self._corpus.pinned:
            label += ":other-version"
        return f"{label}:{self._users.name}-user" if self._users and self._needs_user() else label

    def data_hash(self) -> str:
        """Return the hash of the loaded files."""
        return self._corpus.hash

    def splits(self) -> tuple[str, ...]:
        """Return the names of all splits for which there is data."""
        return tuple(self._rows)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raises `UsageError` for a split that does not exist."""
        if split not in self._rows:
            raise unknown_name("split", split, self._rows)
        return tuple(self._tasks(split).values())

    def find(self, task_id: str) -> Task:
        """Return the task with this id in the current split; raises `UsageError` if absent."""
        return self._tasks(self.split).get(task_id) or super().find(task_id)

    def _tasks(self, split: str) -> Mapping[str, Task]:
        with_user = self._users is not None
        return split_tasks(self._corpus, split, self._protocol, with_user=with_user)

    @property
    def row(self) -> Row:
        """The row of the open task; raises `UsageError` where none is open."""
        if self.task is None:
            raise UsageError("No task is open, so there is nothing to verify: call reset() first.")
        row: Row = self.task.data["row"]
        return row

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Open a task; where it has a user, the first user message is what that one says."""
        messages, info = super().reset(seed=seed, options=options)
        if self._user is None or self.task is None:
            return messages, info
        messages = (messages[0], Message("user", self._user.say(None)))
        self.task = replace(self.task, messages=messages)
        return messages, info | {"task": self.task}

    def open(self, task: Task, seed: int) -> Toolset:
        """Build the task's scene; nothing in it is random."""
        self.close()
        row: Row = task.data["row"]
        users = self._users if row.category == MULTI_TURN else None
        self._user = users.make(row, self._corpus.language) if users else None
        self._trace, self._measures, self._reply = [], {}, AssistantMessage()
        return SceneTools(row, self._corpus.language) if row.kind == "agent" else OfferedTools(row)

    def oracle(self, task: Task) -> Sequence[AssistantMessage]:
        """Return turns that give the expected answer, or reach the expected end state."""
        return solve(task.data["row"], self._corpus.language)

    def impossible(self, task: Task) -> bool:
        """Whether the row's own answer is known to be no pass under the chosen scoring."""
        return task.id in impossible(self._corpus.language, self._scoring)

    def finish(self, reason: Termination) -> Outcome:
        """End the open episode; its user leaves."""
        try:
            return super().finish(reason)
        finally:
            self.close()

    def close(self) -> None:
        """Let the user leave; may be called twice."""
        if self._user is not None:
            self._user.leave()

    # -- one turn ----------------------------------------------------------------------------

    def _answer(self, action: AssistantMessage) -> Observation:
        if self.row.kind != "agent":
            return self._take_reply(action)
        if action.tool_calls:
            self._trace.append(write_calls(action.tool_calls))
            return super()._answer(action)
        written = tool_calls(action.text)
        if written or self.row.category == MULTI_STEP:
            self._trace.append(action.text)
        return super()._answer(AssistantMessage(action.text, written) if written else action)

    def _answer_text(self, text: str) -> Observation:
        if self._user is None or FINISH in text:
            return super()._answer_text(text)
        said = self._user.say(text)
        if FINISH in said:
            self.finish(Termination.USER_STOP)
        return (Message("user", said),)

    def _take_reply(self, action: AssistantMessage) -> Observation:
        """Take the one reply of a task that is no agent's; nothing is executed."""
        self._reply = action
        self._executed = [(call.name, dict(call.arguments), "") for call in action.tool_calls]
        unreadable = action.parse_error is not None
        self.finish(Termination.PARSE_LIMIT if unreadable else Termination.SUBMITTED)
        return ()

    # -- scores ------------------------------------------------------------------------------

    def verify(self) -> Sequence[Check]:
        """Compare what the open episode came to with the answer, officially and strictly."""
        if isinstance(self.toolset, SceneTools):
            verdict = agent_verdict(self.row, self.toolset.states(), self._trace)
        else:
            verdict = reply_verdict(self.row, self._reply)
        self._measures = verdict.measures
        faults = {"official": verdict.official, "strict": verdict.strict}
        return [Check(name, fault is None, fault) for name, fault in faults.items()]

    def score(self, checks: Sequence[Check]) -> float:
        """Return 1 where the chosen verdict is a pass, else 0."""
        return float(any(check.passed for check in checks if check.name == self._scoring))

    def measures(self) -> Mapping[str, float]:
        """Return both verdicts, and the process accuracy of an agent."""
        return self._measures

    def figures(self, episodes: Sequence[Episode]) -> Mapping[str, Mapping[str, float]]:
        """Return the accuracies that ACEBench publishes, by category, part and overall."""
        return published(self._corpus, episodes)


class LiveUserEnv(AceBenchEnv):
    """`AceBenchEnv` whose user is a model, so that steps wait."""

    blocking: ClassVar[bool] = True


def options(values: Mapping[str, Any]) -> None:
    """Check the environment's named options; raises `UsageError` for an unknown value."""
    known = {"scoring": ("official", "strict"), "protocol": ("calls", "text")}
    for name, value in values.items():
        if value not in known[name]:
            raise unknown_name(name, str(value), known[name])
