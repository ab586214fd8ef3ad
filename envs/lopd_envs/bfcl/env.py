"""`BFCLEnv`: the Berkeley Function Calling Leaderboard as an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lopd_envs.bfcl.calls import Call, Unreadable, read_reply, to_carry_out
from lopd_envs.bfcl.corpus import ABSTENTION, Entry
from lopd_envs.bfcl.multi_turn import OFFICIAL
from lopd_envs.bfcl.play import Conversation, Question
from lopd_envs.bfcl.prompts import Protocol, next_turn
from lopd_envs.bfcl.solutions import IMPOSSIBLE, solution
from lopd_envs.bfcl.splits import SPLITS, split_tasks
from lopd_envs.bfcl.wheel import Wheel
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.messages import AssistantMessage, Observation, ToolCall
from lopd_gym.tasks import TRAIN_SPLIT, Check, Task, Termination

BFCL = EpisodeRules(max_turns=1_000, max_parse_errors=0, max_observation_chars=1_000_000)
"""The leaderboard's rules: results whole, and no limit but the one on the steps of a turn."""


class BFCLEnv(ToolEnv):
    """BFCL's multi-turn and single-turn entries, scored by the leaderboard's own checkers.

    A reply without a readable call ends a turn; the simulated user then sends the next one. The
    score is 1 for the official pass, else 0; the other checks inform.
    """

    name: ClassVar[str] = "bfcl"

    def __init__(
        self,
        wheel: Wheel,
        split: str = TRAIN_SPLIT,
        rules: EpisodeRules | None = None,
        protocol: Protocol = "fc",
    ) -> None:
        super().__init__(split, rules or BFCL)
        self._wheel = wheel
        self._protocol: Protocol = protocol
        self._play: Conversation | Question | None = None
        self.tasks(split)

    @property
    def label(self) -> str:
        """The name, with the release that the scores belong to."""
        label = f"bfcl-{self._wheel.release.version}"
        return label if self._protocol == "fc" else f"{label}-{self._protocol}"

    def splits(self) -> tuple[str, ...]:
        """Return the manifest's two splits and the leaderboard's categories."""
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raises `UsageError` for a split that does not exist."""
        return tuple(self._by_id(split).values())

    def find(self, task_id: str) -> Task:
        """Return the task with this id in the current split; raises `UsageError` if absent."""
        return self._by_id(self.split).get(task_id) or super().find(task_id)

    def open(self, task: Task, seed: int) -> Conversation | Question:
        """Build fresh API instances; nothing is drawn at random, so ``seed`` changes nothing.

        Raises:
            UsageError: Java or JavaScript is to be written as text, which we do not read.
        """
        entry: Entry = task.data["entry"]
        if self._protocol == "prompting" and entry.language != "python":
            raise UsageError(
                f"'{entry.category}' can be played with --set env.protocol=fc only: replies in "
                "Java and JavaScript syntax are not read."
            )
        kind = Conversation if entry.multi_turn else Question
        self._play = kind(self._wheel, entry, self._protocol)
        return self._play

    def verify(self) -> Sequence[Check]:
        """Replay what was done on fresh instances and let the official checker judge it."""
        return self._opened().checks()

    def score(self, checks: Sequence[Check]) -> float:
        """Return 1 for the official pass, else 0."""
        return float(any(c.passed for c in checks if c.name == OFFICIAL))

    def data_hash(self) -> str:
        """Return the hash of the wheel's data and scoring code."""
        return self._wheel.hash

    def oracle(self, task: Task) -> Sequence[AssistantMessage]:
        """Return the benchmark's own answer; a few of them do not pass its own checker."""
        return solution(self._wheel, task.data["entry"], self._protocol)

    def impossible(self, task: Task) -> bool:
        """Whether no answer can pass upstream's checker."""
        return task.id in IMPOSSIBLE[self._wheel.release.prefix]

    def asks_for_nothing(self, task: Task) -> bool:
        """Whether no call is the right answer."""
        return task.group in ABSTENTION

    def _by_id(self, split: str) -> dict[str, Task]:
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
        return split_tasks(self._wheel, split, self._protocol)

    def _opened(self) -> Conversation | Question:
        if self._play is None:
            raise UsageError("No task is open, so there is nothing to verify: call reset() first.")
        return self._play

    # -- one turn ----------------------------------------------------------------------------

    def _answer_parse_error(self, reason: str) -> Observation:
        return self._reply(None)  # officially, a broken call is plain text

    def _answer_text(self, text: str) -> Observation:
        if self._protocol == "fc":
            return self._reply([])
        try:
            calls = read_reply(text)
            if isinstance(self._play, Conversation):
                calls = [to_carry_out(call) for call in calls]
        except Unreadable:
            return self._reply(None)
        return self._reply(calls)

    def _answer_calls(self, calls: tuple[ToolCall, ...]) -> Observation:
        return self._reply([Call(call.name, call.arguments) for call in calls])

    def _reply(self, calls: Sequence[Call] | None) -> Observation:
        """Take one reply: its calls, or None where it could not be read."""
        play = self._opened()
        if isinstance(play, Question):
            play.calls = calls
            self.finish(Termination.SUBMITTED)
            return ()
        if not calls:
            return self._end_turn(play)
        replies = super()._answer_calls(tuple(ToolCall(c.name, c.arguments) for c in calls))
        play.end_step()
        if self.outcome is None and play.over_limit:
            play.end_turn()
            self.finish(Termination.STEP_LIMIT)
        return replies

    def _end_turn(self, play: Conversation) -> Observation:
        play.end_turn()
        if play.over:
            self.finish(Termination.SUBMITTED)
            return ()
        return next_turn(self._wheel, play.entry, play.turn, self._protocol)
