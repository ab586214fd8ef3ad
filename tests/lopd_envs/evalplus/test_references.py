"""Every reference passes its own tests, and a solution that returns None passes none.

Here on a part of the tasks; ``python -m benchmarks.evalplus_references`` takes all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lopd_envs.evalplus.corpus import Problem
from lopd_envs.evalplus.grading import Grader
from lopd_sandboxes.process import ProcessSandbox

from tests.lopd_envs.evalplus.problems import humaneval, mbpp

HUMANEVAL = [f"HumanEval/{n}" for n in (0, 10, 20, 32, 44, 65, 83, 99, 107, 123, 139, 148, 163)]
MBPP = [f"Mbpp/{n}" for n in (2, 57, 75, 106, 124, 252, 259, 278, 404, 405, 468, 558, 580)]
MBPP += [f"Mbpp/{n}" for n in (581, 615, 722, 737, 769, 787, 793, 794, 807)]


@pytest.fixture(scope="module")
def problems(data_folder: Path) -> dict[str, Problem]:
    return {**humaneval(data_folder).problems, **mbpp(data_folder).problems}


@pytest.fixture(scope="module")
def grader() -> Grader:
    return Grader(ProcessSandbox())


@pytest.mark.parametrize("task_id", HUMANEVAL + MBPP)
def test_the_reference_passes_and_none_does_not(
    problems: dict[str, Problem], grader: Grader, task_id: str
) -> None:
    problem = problems[task_id]
    right = grader.grade(problem, problem.reference)
    assert (right.base_passed, right.plus_passed) == (True, True), right.judgement
    assert right.judgement.total == len(problem.inputs)
    nothing = grader.grade(problem, f"def {problem.entry_point}(*arguments):\n    return None")
    assert (nothing.base_passed, nothing.plus_passed) == (False, False)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_all_of_them(problems: dict[str, Problem], grader: Grader) -> None:
    for problem in problems.values():
        assert grader.grade(problem, problem.reference).plus_passed, problem.id
        nothing = grader.grade(problem, f"def {problem.entry_point}(*arguments):\n    return None")
        assert not nothing.base_passed, problem.id
