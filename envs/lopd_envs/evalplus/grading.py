"""Judge a candidate by a problem's inputs, against what the reference returns on this machine.

The reference runs in the same sandbox, once for each problem, and gives both the expected values
and the time that they take: a candidate may use four times as much processor time as the
reference, and at least four seconds, for each input.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lopd_envs.code.calls import Call, Candidate, call_all, judge_calls
from lopd_envs.code.driver import Malformed, decode, encode_whole
from lopd_envs.code.verdicts import Judgement, Verdict
from lopd_envs.evalplus.corpus import Problem
from lopd_envs.evalplus.oracles import accepts
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Sandbox

MIN_CPU_S = 4.0
CPU_FACTOR = 4.0
TASK_CPU_S = 60.0
"""No candidate gets more than this (and a second) for all inputs, as in EvalPlus."""

REFERENCE_CPU_S = 30.0

_BEYOND = (Verdict.OUTPUT_LIMIT, Verdict.MEMORY_LIMIT)


@dataclass(frozen=True, slots=True, eq=False)
class Test:
    """One input with what the reference returned for it, and the limit it gave."""

    arguments: list[Any]
    sent: str
    expected: Any
    cpu_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Tests:
    """A problem's tests: the first ``base`` of them are the original benchmark's.

    ``left_out`` counts inputs for which even the reference exceeds a limit on memory or output.
    """

    tests: tuple[Test, ...]
    base: int
    left_out: int


@dataclass(frozen=True, slots=True)
class Grade:
    """The judgement on a candidate, split into EvalPlus' two parts."""

    judgement: Judgement
    base_passed: bool

    @property
    def plus_passed(self) -> bool:
        """Whether base and plus tests were all passed."""
        return self.judgement.accepted


class Grader:
    """Judges candidates in a sandbox, and remembers what the references returned."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._tests: dict[str, Tests] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def grade(self, problem: Problem, code: str) -> Grade:
        """Judge a program on base and plus inputs, up to the first failure.

        Raises:
            InfrastructureError: The machinery broke, or the reference itself fails.
        """
        prepared = self.tests(problem)
        tests = prepared.tests
        limits = [t.cpu_s for t in tests]

        def right(index: int, value: Any) -> bool:
            test = tests[index]
            return accepts(
                problem.id,
                problem.entry_point,
                test.arguments,
                value,
                test.expected,
                problem.tolerance,
            )

        judgement = judge_calls(
            self._sandbox,
            Candidate(code, problem.entry_point),
            [t.sent for t in tests],
            limits,
            right,
            total_cpu_s=min(TASK_CPU_S, sum(limits)) + 1,
        )
        return Grade(judgement, judgement.passed >= prepared.base)

    def tests(self, problem: Problem) -> Tests:
        """Return a problem's tests, running its reference when they are first asked for."""
        with self._guard:
            lock = self._locks.setdefault(problem.id, threading.Lock())
        with lock:
            if problem.id not in self._tests:
                self._tests[problem.id] = prepare(self._sandbox, problem)
            return self._tests[problem.id]


def prepare(sandbox: Sandbox, problem: Problem) -> Tests:
    """Run the reference on every input.

    Raises:
        InfrastructureError: The reference fails, so that nothing can be said about candidates.
    """
    inputs = [encode_whole(arguments) for arguments in problem.inputs]
    results = _reference_results(sandbox, problem, inputs)
    base = len(problem.base)
    tests = tuple(
        _test(problem, arguments, sent, result)
        for arguments, sent, result in zip(problem.inputs, inputs, results, strict=True)
        if result is not None
    )
    missing = [i for i, result in enumerate(results) if result is None]
    kept = base - sum(i < base for i in missing)
    if not kept:
        raise InfrastructureError(f"The reference of {problem.id} exceeds the limits on all tests.")
    return Tests(tests, kept, len(missing))


def _reference_results(
    sandbox: Sandbox, problem: Problem, inputs: Sequence[str]
) -> list[Call | None]:
    """Return what the reference gives for each input; None where it exceeds a limit."""
    candidate = Candidate(problem.reference, problem.entry_point)
    results: list[Call | None] = []
    while len(results) < len(inputs):
        rest = inputs[len(results) :]
        calls: list[Call | None] = list(
            call_all(sandbox, candidate, rest, [REFERENCE_CPU_S] * len(rest))
        )
        last = calls[-1]
        if last is not None and last.verdict in _BEYOND:
            calls[-1] = None
        elif last is not None and last.verdict is not Verdict.ACCEPTED:
            raise InfrastructureError(
                f"The reference of {problem.id} fails on its own input number "
                f"{len(results) + len(calls) - 1}: {last.verdict}, {last.detail}"
            )
        results += calls
    return results


def _test(problem: Problem, arguments: list[Any], sent: str, result: Call) -> Test:
    try:
        expected = decode(result.value or "")
    except Malformed as err:
        raise InfrastructureError(f"The reference of {problem.id} returned {err}.") from err
    return Test(arguments, sent, expected, max(MIN_CPU_S, CPU_FACTOR * result.cpu_s))
