"""Judge a candidate by a problem's tests: whole programs as real processes, or one method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lopd_envs.code.calls import Candidate, judge_calls
from lopd_envs.code.driver import encode_whole
from lopd_envs.code.programs import run_program
from lopd_envs.code.verdicts import Judgement, Verdict
from lopd_envs.livecodebench.compare import Comparison, same_output, same_value
from lopd_envs.livecodebench.corpus import Problem
from lopd_envs.livecodebench.testcases import TestCase
from lopd_gym.errors import DataError
from lopd_gym.sandbox import Sandbox

CPU_S = 6.0
"""For each test, as in LiveCodeBench; there it is wall time."""

_NAMES = """
    string re datetime collections heapq bisect copy math random statistics itertools functools
    operator io sys json typing
"""
_MODULES = _NAMES.split()
PREAMBLE = "\n".join(
    [f"from {name} import *" for name in _MODULES]
    + [f"import {name}" for name in _MODULES]
    + ["from builtins import *", "sys.setrecursionlimit(50_000)"]
)
"""What LiveCodeBench puts before every solution, so that imports may be left out."""


def judge(
    sandbox: Sandbox,
    problem: Problem,
    code: str,
    tests: Sequence[TestCase],
    comparison: Comparison,
) -> Judgement:
    """Judge a program on tests, up to the first that fails.

    Raises:
        DataError: A functional test is not JSON.
        InfrastructureError: The machinery broke, again and again.
        ValueError: There are no tests: nothing is not a pass.
    """
    if not tests:
        raise ValueError(f"Problem {problem.id} cannot be judged without a single test.")
    if problem.function:
        return _judge_method(sandbox, problem, code, tests, comparison)
    for passed, test in enumerate(tests):
        output = run_program(sandbox, code, test.input, CPU_S, PREAMBLE)
        verdict, detail = output.verdict, output.detail
        if verdict is Verdict.ACCEPTED and not same_output(output.text, test.output, comparison):
            verdict, detail = Verdict.WRONG_ANSWER, output.text
        if verdict is not Verdict.ACCEPTED:
            return Judgement(verdict, passed, len(tests), detail)
    return Judgement(Verdict.ACCEPTED, len(tests), len(tests))


def _judge_method(
    sandbox: Sandbox,
    problem: Problem,
    code: str,
    tests: Sequence[TestCase],
    comparison: Comparison,
) -> Judgement:
    inputs = [encode_whole(arguments_of(test, problem)) for test in tests]
    expected = [_json(t.output, problem) for t in tests]
    candidate = Candidate(code, f"Solution.{problem.function}", PREAMBLE)
    return judge_calls(
        sandbox,
        candidate,
        inputs,
        [CPU_S] * len(inputs),
        lambda index, value: same_value(value, expected[index], comparison),
    )


def arguments_of(test: TestCase, problem: Problem) -> list[Any]:
    """Return the arguments of a functional test, which stand one a line."""
    return [_json(line, problem) for line in test.input.split("\n") if line.strip()]


def _json(text: str, problem: Problem) -> Any:
    try:
        return json.loads(text)
    except ValueError as err:
        raise DataError(f"Problem {problem.id}: a functional test is not JSON ({err}).") from err
