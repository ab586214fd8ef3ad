"""`CodeEnv`: write a program, over turns or at once; hidden tests decide.

The agent may reply with the program at once, in a fenced block. Or it works: it runs code in the
sandbox, runs the examples that the statement shows, reads what came out, and submits. What the
hidden tests hold is never shown.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, ClassVar

from lopd_envs.code.attempts import attempt
from lopd_envs.code.extract import extract_code
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.messages import AssistantMessage, Message
from lopd_gym.sandbox import PYTHON, Limits, RunResult, Sandbox
from lopd_gym.tasks import TRAIN_SPLIT, Check, Outcome, Task, Termination
from lopd_gym.tools import MethodTools, Toolset, tool

RULES = {
    "turns": EpisodeRules(max_turns=10, max_observation_chars=4_000),
    "direct": EpisodeRules(max_turns=1),
}
"""For each protocol its rules: work with tools and submit, or one reply that is the submission, as
the benchmarks themselves have it."""

_RUN_LIMITS = Limits(wall_s=15.0, cpu_s=5.0, memory_mib=1024, output_bytes=16 << 10)

_FOLDER = re.compile(r'"[^"\n]*/main\.py"')
"""The working folder has another name each time, and an episode should be repeatable."""

_ADVICE = (
    "You write Python programs. Use the tools to try your code, then submit the whole program "
    "with the submit tool, or reply with it in a fenced block. Hidden tests decide."
)


class CodeEnv(ToolEnv):
    """Base of the code environments. The score is 1 for a program that passes, else 0.

    ``sandbox`` is the open episode's own: all that the policy writes runs there.
    """

    blocking: ClassVar[bool] = True

    def __init__(
        self,
        sandbox: Sandbox,
        split: str = TRAIN_SPLIT,
        rules: EpisodeRules | None = None,
        protocol: str = "turns",
    ) -> None:
        if protocol not in RULES:
            raise unknown_name("protocol", protocol, RULES)
        super().__init__(split, rules or RULES[protocol])
        self.protocol = protocol
        self.submission: str | None = None
        self.sandbox = sandbox
        self._backend = sandbox
        self._lease = ExitStack()
        self._checks: tuple[Check, ...] | None = None

    # -- what a benchmark says ---------------------------------------------------------------

    @cached_property
    @abstractmethod
    def _tasks(self) -> dict[str, dict[str, Task]]:
        """The tasks of each split, by id."""

    @abstractmethod
    def judge(self, task: Task, code: str | None) -> tuple[Check, ...]:
        """Judge a submission, None for none, by the task's hidden tests."""

    @abstractmethod
    def try_examples(self, task: Task, code: str) -> str:
        """Run the examples of the task's statement, and describe what came out."""

    @abstractmethod
    def entry_point(self, task: Task) -> str:
        """Return the name that a submission must define; empty for a whole program."""

    # -- its tasks -----------------------------------------------------------------------------

    def splits(self) -> tuple[str, ...]:
        """Return the names of all splits."""
        return tuple(self._tasks)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raises `UsageError` for a split that does not exist."""
        if split not in self._tasks:
            raise unknown_name("split", split, self._tasks)
        return tuple(self._tasks[split].values())

    def find(self, task_id: str) -> Task:
        """Return the task with this id in the current split; raises `UsageError` if absent."""
        return self._tasks[self.split].get(task_id) or super().find(task_id)

    # -- an episode --------------------------------------------------------------------------

    def open(self, task: Task, seed: int) -> Toolset:
        """Forget the last submission and take a sandbox that no other episode shares."""
        self.close()
        self.sandbox = self._lease.enter_context(self._backend.lease())
        self.submission = self._checks = None
        return MethodTools(self if self.protocol == "turns" else None)

    def step(
        self, action: AssistantMessage
    ) -> tuple[tuple[Message, ...], float, bool, bool, dict[str, Any]]:
        """Take one turn; a reply without tool calls is a submission."""
        if self.task is not None and not action.tool_calls and action.parse_error is None:
            self.submission = extract_code(action.text, self.entry_point(self.task))
        return super().step(action)

    def finish(self, reason: Termination) -> Outcome:
        """End the open episode, and give its sandbox back."""
        try:
            return super().finish(reason)
        finally:
            self.close()

    def close(self) -> None:
        """Give the episode's sandbox back; may be called twice."""
        self._lease.close()

    @property
    def isolation(self) -> str:
        """The level of the sandbox that runs what the policy writes."""
        return self._backend.isolation.label

    def verify(self) -> Sequence[Check]:
        """Judge the submission, once."""
        if self.task is None:
            raise UsageError("No task is open, so there is nothing to verify: call reset() first.")
        if self._checks is None:
            self._checks = self.judge(self.task, self.submission)
        return self._checks

    def score(self, checks: Sequence[Check]) -> float:
        """Return 1 when every check passed, else 0."""
        return float(bool(checks) and all(c.passed for c in checks))

    def opening(self, statement: str) -> tuple[Message, ...]:
        """Return a task's first messages."""
        system = (Message("system", _ADVICE),) if self.protocol == "turns" else ()
        return (*system, Message("user", statement))

    # -- tools -------------------------------------------------------------------------------

    @tool
    def run_code(self, code: str, stdin: str = "") -> dict[str, Any]:
        """Run a Python program and return what it prints.

        Args:
            code: The program.
            stdin: Text on its standard input.
        """
        files = {"main.py": code.encode(errors="replace")}
        given = stdin.encode(errors="replace")
        command = [PYTHON, "main.py"]
        return _told(attempt(lambda: self.sandbox.run(files, command, given, _RUN_LIMITS)))

    @tool
    def run_public_tests(self, code: str) -> str:
        """Try a solution on the examples of the task, before you submit it.

        Args:
            code: The whole solution.
        """
        assert self.task is not None
        return self.try_examples(self.task, code)

    @tool
    def submit(self, code: str) -> str:
        """Submit your final solution. This ends the task.

        Args:
            code: The whole solution.
        """
        self.submission, self.submitted = code, True
        return "submitted"


def _told(result: RunResult) -> dict[str, Any]:
    told: dict[str, Any] = {"exit_code": result.exit_code}
    for name, limit in (("stdout", 2_000), ("stderr", 1_000)):
        text = _FOLDER.sub('"main.py"', getattr(result, name).decode(errors="replace"))
        if text:
            told[name] = text if len(text) <= limit else f"... {text[-limit:]}"
    for name in ("timed_out", "memory_killed", "truncated"):
        if getattr(result, name):
            told[name] = True
    return told
