"""`ToolEnv`: a multi-turn tool-use environment as a `gymnasium.Env`.

To write one, subclass `ToolEnv`, mark methods with `lopd_gym.tools.tool`, and implement `tasks`,
`open` and `verify`. Everything that is common to all of them (arguments that are wrong, replies
that cannot be parsed, limits, endings) is handled here, once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from lopd_gym.episode import Episode
from lopd_gym.errors import UsageError
from lopd_gym.messages import AssistantMessage, Message, Observation, ToolCall
from lopd_gym.registry import register_gymnasium
from lopd_gym.spaces import AssistantSpace, MessagesSpace
from lopd_gym.tasks import TRAIN_SPLIT, Check, Outcome, Task, Termination
from lopd_gym.tools import MethodTools, Toolset, error_text


class EpisodeRules(BaseModel):
    """Rules of an episode that published protocols disagree on.

    Attributes:
        max_turns: Assistant turns before the episode is cut off.
        max_parse_errors: Unreadable replies before the episode is cut off; 0 means no limit.
        max_observation_chars: Longer tool results are clipped, and say so.
        on_exception: Whether a tool that raises ends the episode with score 0, or is answered.
        at_limit: Whether a cut-off episode is scored on the state it reached, or gets 0.
        several_calls: What happens to a turn with more than one tool call.
        final_text: Whether any text without a tool call submits, or only one with the marker.
        final_marker: The marker for ``final_text="marker"``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int = Field(default=30, ge=1)
    max_parse_errors: int = Field(default=3, ge=0)
    max_observation_chars: int = Field(default=8_000, ge=64)
    on_exception: Literal["observation", "terminate"] = "observation"
    at_limit: Literal["score", "zero"] = "score"
    several_calls: Literal["first", "reject", "all"] = "all"
    final_text: Literal["any", "marker"] = "any"
    final_marker: str = "Task Completed"


class ToolEnv(gymnasium.Env[Observation, AssistantMessage]):
    """Base of all environments: tasks, tools, a verifier.

    ``reset(options={"task": task_id})`` opens that task; without it a task of ``split`` is drawn
    from the environment's own generator. ``info`` of `reset` holds ``task`` and ``tools``; that of
    `step` holds ``executed``, the calls that really ran as (name, arguments, observation), and at
    the end ``outcome``, whose score is the reward.

    ``blocking`` says that steps wait for another process: the agent loop then steps in threads.
    A tool that ends the episode sets ``submitted``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]
    name: ClassVar[str] = "tool-env"
    success_threshold: ClassVar[float] = 1.0
    blocking: ClassVar[bool] = False

    def __init__(self, split: str = TRAIN_SPLIT, rules: EpisodeRules | None = None) -> None:
        self.split = split
        self.rules = rules or EpisodeRules()
        self.observation_space = MessagesSpace()
        self.action_space = AssistantSpace()
        self.task: Task | None = None
        self.toolset: Toolset = MethodTools(self)
        self.outcome: Outcome | None = None
        self.submitted = False
        self._turns = 0
        self._parse_errors = 0
        self._executed: list[tuple[str, dict[str, Any], str]] = []

    # -- what an author writes ---------------------------------------------------------------

    @abstractmethod
    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raises `UsageError` for a split that does not exist."""

    @abstractmethod
    def open(self, task: Task, seed: int) -> Toolset:
        """Build the task's fresh initial state and return the tools that may be called."""

    @abstractmethod
    def verify(self) -> Sequence[Check]:
        """Check the current state. Must not change it."""

    def splits(self) -> tuple[str, ...]:
        """Return the names of all splits."""
        return (TRAIN_SPLIT,)

    def oracle(self, task: Task) -> Sequence[AssistantMessage] | None:
        """Return turns that solve the task, or None where no solution is known."""
        return None

    def impossible(self, task: Task) -> bool:
        """Whether not even the known solution passes, by a fault of the benchmark's own."""
        return False

    def asks_for_nothing(self, task: Task) -> bool:
        """Whether doing nothing is right, so that it rightly succeeds."""
        return False

    @property
    def label(self) -> str:
        """What scores are labelled with: the name, and the data set where there are several."""
        return self.name

    @property
    def isolation(self) -> str:
        """How code that is not ours was kept from the host: a label of `Isolation`.

        Empty where no such code runs; recorded in every episode and in a run's summary.
        """
        return ""

    def data_hash(self) -> str:
        """Return a hash that identifies the tasks and their data; scores are stated with it."""
        return ""

    def score(self, checks: Sequence[Check]) -> float:
        """Turn checks into a score in [0, 1]: by default the fraction that passed."""
        return sum(c.passed for c in checks) / len(checks) if checks else 0.0

    def measures(self) -> Mapping[str, float]:
        """Return further numbers on the state that was verified, by name; none by default."""
        return {}

    def figures(self, episodes: Sequence[Episode]) -> Mapping[str, Mapping[str, float]]:
        """Summarise the measures of one evaluation's episodes, as rows of a table.

        By default their means; a benchmark gives what its publication reports.
        """
        outcomes = [e.outcome for e in episodes if not e.failed]
        names = dict.fromkeys(name for o in outcomes for name in o.measures)
        means = {n: fmean(o.measures[n] for o in outcomes if n in o.measures) for n in names}
        return {self.split: means} if means else {}

    # -- gymnasium ---------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Open a task and return its first messages."""
        super().reset(seed=seed)
        self.task = self._choose((options or {}).get("task"))
        self.outcome = None
        self.submitted = False
        self._turns = self._parse_errors = 0
        episode_seed = seed if seed is not None else int(self.np_random.integers(2**31))
        self.toolset = self.open(self.task, episode_seed)
        info = {"task": self.task, "tools": self.toolset.specs()}
        return tuple(self.task.messages), info

    def step(
        self, action: AssistantMessage
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one assistant turn. Raises `UsageError` when no episode is open."""
        if self.task is None or self.outcome is not None:
            raise UsageError("This episode has ended or was never opened: call reset() first.")
        self._turns += 1
        self._executed = []
        replies = self._answer(action)
        if self.outcome is None and self._turns >= self.rules.max_turns:
            self.finish(Termination.STEP_LIMIT)
        outcome: Outcome | None = self.outcome
        info: dict[str, Any] = {"executed": tuple(self._executed)}
        if outcome is None:
            return replies, 0.0, False, False, info
        info["outcome"] = outcome
        truncated = outcome.termination.truncated
        reward = outcome.score if outcome.score is not None else 0.0
        return replies, reward, not truncated, truncated, info

    def finish(self, reason: Termination) -> Outcome:
        """End the open episode for ``reason`` and return its outcome.

        The agent loop calls it for limits that only it can see (tokens, seconds).
        """
        checks = tuple(self.verify())
        score = self.score(checks)
        zero_limit = reason.truncated and self.rules.at_limit == "zero"
        if reason is Termination.TOOL_EXCEPTION or zero_limit:
            score = 0.0
        success = score >= self.success_threshold - 1e-9
        self.outcome = Outcome(score, success, reason, checks, measures=self.measures())
        return self.outcome

    # -- one turn ----------------------------------------------------------------------------

    def _choose(self, task_id: str | None) -> Task:
        tasks = self.tasks(self.split)
        if task_id is None:
            return tasks[int(self.np_random.integers(len(tasks)))]
        return self.find(task_id)

    def find(self, task_id: str) -> Task:
        """Return the task with this id in the current split; raises `UsageError` if absent."""
        for task in self.tasks(self.split):
            if task.id == task_id:
                return task
        raise UsageError(f"No task '{task_id}' in split '{self.split}' of '{self.name}'.")

    def _answer(self, action: AssistantMessage) -> Observation:
        if action.parse_error is not None:
            return self._answer_parse_error(action.parse_error)
        if not action.tool_calls:
            return self._answer_text(action.text)
        return self._answer_calls(action.tool_calls)

    def _answer_parse_error(self, reason: str) -> Observation:
        self._parse_errors += 1
        if 0 < self.rules.max_parse_errors <= self._parse_errors:
            self.finish(Termination.PARSE_LIMIT)
        return (Message("user", error_text(f"reply not understood: {reason}")),)

    def _answer_text(self, text: str) -> Observation:
        rules = self.rules
        if rules.final_text == "marker" and rules.final_marker not in text:
            hint = f"no tool call found; to finish, reply with: {rules.final_marker}"
            return (Message("user", error_text(hint)),)
        self.finish(Termination.SUBMITTED)
        return ()

    def _answer_calls(self, calls: tuple[ToolCall, ...]) -> Observation:
        if len(calls) > 1 and self.rules.several_calls == "reject":
            return (Message("tool", error_text("one call at a time, please")),)
        executed = calls if self.rules.several_calls == "all" else calls[:1]
        replies = []
        for call in executed:
            result = self.toolset.call(call.name, call.arguments)
            content = self._clip(result.content)
            replies.append(Message("tool", content))
            if not result.refused:
                self._executed.append((call.name, dict(call.arguments), content))
            if result.lost is not None:
                self.outcome = Outcome(0.0, False, result.lost, error=result.raised)
                break
            if result.raised is not None and self.rules.on_exception == "terminate":
                self.finish(Termination.TOOL_EXCEPTION)
                break
            if self.submitted:
                self.finish(Termination.SUBMITTED)
                break
        return tuple(replies)

    def _clip(self, text: str) -> str:
        limit = self.rules.max_observation_chars
        return text if len(text) <= limit else f"{text[:limit]} ... ({len(text)} characters)"


def episode_seed(run_seed: int, *parts: object) -> int:
    """Derive a seed from the run's seed and what identifies an episode, by hashing."""
    text = "/".join(str(p) for p in (run_seed, *parts))
    return int(np.random.SeedSequence([b for b in text.encode()]).generate_state(1)[0]) >> 1


register_gymnasium()
