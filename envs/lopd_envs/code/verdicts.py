"""What can be said about a candidate solution: a closed list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a candidate did on one test, or on all of them. These are never merged.

    `INFRASTRUCTURE` says nothing about the candidate: it has no score.
    """

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a candidate: the first one that is not `ACCEPTED`, else that.

    Attributes:
        verdict: The verdict.
        passed: How many tests were accepted before it.
        total: How many tests there are.
        detail: What went wrong, without what the test expects.
    """

    verdict: Verdict
    passed: int
    total: int
    detail: str = ""

    @property
    def accepted(self) -> bool:
        """Whether every test was passed."""
        return self.verdict is Verdict.ACCEPTED
