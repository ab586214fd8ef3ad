"""Candidates that forge a pass in graders which compare inside of the candidate's process.

Each must fail here, and the candidate after it must be judged as if it had never been.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lopd_envs.code.verdicts import Verdict
from lopd_envs.evalplus.grading import Grader
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.sandbox import Sandbox
from tests.lopd_envs.evalplus.problems import humaneval, mbpp, problem

SANDBOX = ProcessSandbox()

ALWAYS_EQUAL = """
class Equal({base}):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def double(x):
    return Equal()
"""
FRAMES = """
import sys
def double(x):
    frame = sys._getframe()
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            if "expect" in name or name in ("exp", "expected", "want", "answer"):
                return value[0] if isinstance(value, list) else value
        frame = frame.f_back
    return None
"""
COLLECTOR = """
import gc
def double(x):
    for thing in gc.get_objects():
        if isinstance(thing, dict) and any("expect" in str(k) for k in thing):
            return [v for k, v in thing.items() if "expect" in str(k)][0]
"""
RESULT_ARRAY = """
import os, sys
def double(x):
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if isinstance(value, list):
                value[:] = [{"value": str(2 * 3), "cpu_s": 0.0}] * max(1, len(value))
        frame = frame.f_back
    os._exit(0)
"""
PATCH_ENCODER = """
import __main__
__main__.encode = lambda value: '{"opaque": "all is well"}'
def double(x):
    return None
"""
PATCH_DRIVER = """
import __main__
__main__.Driver._call = lambda self, inputs, cpu_s: {"results": [{"value": "true"}] * len(inputs)}
def double(x):
    return None
"""
PATCH_JSON = """
import json
json.dumps = lambda *a, **k: '{"results": [{"verdict": "accepted"}]}'
def double(x):
    return None
"""
SWALLOW = """
def double(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
"""
BUILTINS = """
import builtins
builtins.all = builtins.any = lambda *a: True
builtins.isinstance = lambda *a: True
builtins.type = lambda *a: int
def double(x):
    return None
"""
GOOD = "def double(x):\n    return 2 * x"


FORGERIES = [
    *(ALWAYS_EQUAL.replace("{base}", base) for base in ("", "int", "float", "str")),
    FRAMES,
    COLLECTOR,
    RESULT_ARRAY,
    PATCH_ENCODER,
    PATCH_DRIVER,
    PATCH_JSON,
    BUILTINS,
    "import io\nwith io.open('x', 'w') as f: f.write('1')\ndef double(x): return None",
    "import posix\nposix.mkdir('x')\ndef double(x): return None",
    "import sys\nsys.modules['solution'] = None\ndef double(x): return None",
]


def check_forgery(code: str, sandbox: Sandbox) -> None:
    """Judge a forgery, then an honest program in the same sandbox."""
    grader = Grader()
    forged = grader.grade(problem(), code, sandbox)
    assert forged.judgement.verdict in (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR), code
    assert forged.judgement.passed == 0
    assert not forged.base_passed
    assert grader.grade(problem(), GOOD, sandbox).plus_passed


@pytest.mark.parametrize("code", FORGERIES)
def test_forgeries_fail_and_leave_nothing(code: str) -> None:
    check_forgery(code, SANDBOX)


def test_forgeries_fail_in_isolation(isolating: Sandbox) -> None:
    with isolating.lease() as lease:
        for code in FORGERIES:
            check_forgery(code, lease)


def test_a_swallowed_alarm_is_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lopd_envs.evalplus.grading.MIN_CPU_S", 0.3)
    grader = Grader()
    assert grader.grade(problem(), SWALLOW, SANDBOX).judgement.verdict is Verdict.TIME_LIMIT
    assert grader.grade(problem(), GOOD, SANDBOX).plus_passed


def test_an_emptied_argument_does_not_reach_the_oracle(data_folder: Path) -> None:
    find_zero = humaneval(data_folder).problems["HumanEval/32"]
    grader = Grader()
    assert grader.grade(find_zero, find_zero.reference, SANDBOX).plus_passed
    for code in (
        "def find_zero(xs):\n    xs.clear()\n    return 0.0",
        "def find_zero(xs):\n    xs[:] = [0, 0]\n    return 1",
        "def find_zero(xs):\n    return float('nan')",
        "def find_zero(xs):\n    return 1e308",
        "def find_zero(xs):\n    return '0'",
    ):
        assert not grader.grade(find_zero, code, SANDBOX).base_passed


def test_a_string_is_no_set_of_letters() -> None:
    shared = problem(
        task_id="Mbpp/2",
        entry_point="double",
        canonical_solution="\ndef double(x, y):\n    return tuple(set(x) & set(y))\n",
        base_input=[[["a", "b"], ["b", "a"]]],
        plus_input=[],
    )
    grader = Grader()
    assert grader.grade(
        shared, "def double(x, y):\n    return ['b', 'a', 'b']", SANDBOX
    ).plus_passed
    assert grader.grade(shared, "def double(x, y):\n    return {'b', 'a'}", SANDBOX).plus_passed
    for value in ("'ab'", "b'ab'", "{'a': 1, 'b': 2}", "iter('ab')", "[['a'], ['b']]", "3"):
        assert not grader.grade(
            shared, f"def double(x, y):\n    return {value}", SANDBOX
        ).base_passed


def test_references_that_change_their_argument_are_judged_on_the_original(
    data_folder: Path,
) -> None:
    grader = Grader()
    tasks = {**humaneval(data_folder).problems, **mbpp(data_folder).problems}
    for task_id in ("HumanEval/20", "Mbpp/64", "Mbpp/428"):
        problem = tasks[task_id]
        before = repr(problem.inputs)
        assert grader.grade(problem, problem.reference, SANDBOX).plus_passed
        assert repr(problem.inputs) == before
