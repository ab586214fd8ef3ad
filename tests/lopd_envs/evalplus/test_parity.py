"""The same verdicts as EvalPlus itself, where that package is installed.

References are changed a little, by swapping operators and constants, and both graders judge them.
``find_zero`` is left out: no solution of it passes in EvalPlus 0.3.1.
"""

from __future__ import annotations

import ast
import gzip
import json
import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import pytest
from lopd_envs.evalplus.corpus import Problem
from lopd_envs.evalplus.grading import Grader
from lopd_envs.evalplus.repair import repair_inputs
from lopd_sandboxes.process import ProcessSandbox

from tests.lopd_envs.evalplus.problems import humaneval, mbpp

upstream = pytest.importorskip("evalplus.eval", reason="evalplus is not installed")

SANDBOX = ProcessSandbox()
MUTANTS = 24


class Mutation(ast.NodeTransformer):
    """Changes the ``chosen``-th place of a program that can be changed."""

    swaps: ClassVar = {
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Add,
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.And: ast.Or,
    }

    def __init__(self, chosen: int) -> None:
        self.left = chosen

    def _here(self) -> bool:
        self.left -= 1
        return self.left == -1

    def visit(self, node: ast.AST) -> Any:
        swap = self.swaps.get(type(node))
        if swap is not None and self._here():
            return swap()
        if isinstance(node, ast.Constant) and type(node.value) is int and self._here():
            return ast.Constant(node.value + 1)
        return self.generic_visit(node)


def mutants(problem: Problem, rng: random.Random) -> list[str]:
    """The reference and one changed version of it."""
    tree = ast.parse(problem.reference)
    counter = Mutation(1 << 30)
    counter.visit(deepcopy(tree))
    places = (1 << 30) - counter.left
    if not places:
        return [problem.reference]
    changed = Mutation(rng.randrange(places)).visit(tree)
    return [problem.reference, ast.unparse(ast.fix_missing_locations(changed))]


def upstream_passes(problem: Problem, code: str, grader: Grader) -> bool:
    tests = grader.tests(problem, SANDBOX).tests
    data = "mbpp" if problem.id.startswith("Mbpp") else "humaneval"
    status, _ = upstream.untrusted_check(
        data,
        code,
        [deepcopy(t.arguments) for t in tests],
        problem.entry_point,
        [t.expected for t in tests],
        problem.tolerance,
        [t.cpu_s / 4 for t in tests],
        fast_check=True,
    )
    return bool(status == "pass")


def test_verdicts_agree_on_mutated_references(data_folder: Path) -> None:
    rng = random.Random(7)
    problems = list(humaneval(data_folder).problems.values())
    problems += list(mbpp(data_folder, plus=10).problems.values())
    slow = {"HumanEval/32", "HumanEval/130", "HumanEval/15", "Mbpp/599", "Mbpp/255"}
    chosen = rng.sample([p for p in problems if p.id not in slow], MUTANTS // 2)
    grader = Grader()
    verdicts = []
    for problem in chosen:
        for code in mutants(problem, rng):
            ours = grader.grade(problem, code, SANDBOX).plus_passed
            assert ours == upstream_passes(problem, code, grader), f"{problem.id}\n{code}"
            verdicts.append(ours)
    assert 8 < sum(verdicts) < len(verdicts) - 3  # both verdicts came


def upstream_repair() -> Callable[[str, list[Any]], list[Any]]:
    """Upstream's function alone: its module imports packages that it does not need."""
    name = "mbpp_deserialize_inputs"
    path = Path(upstream.__file__).parents[1] / "data" / "mbpp.py"
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    found = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == name]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(found, []), str(path), "exec"), names)  # noqa: S102 - installed code
    function: Callable[[str, list[Any]], list[Any]] = names[name]
    return function


def test_repaired_inputs_are_upstreams(data_folder: Path) -> None:
    repair = upstream_repair()
    with gzip.open(data_folder / "code" / "MbppPlus.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        for part in ("base_input", "plus_input"):
            stored = row[part] or []
            theirs = [list(i) for i in repair(row["task_id"], deepcopy(stored))]
            ours = repair_inputs(row["task_id"], stored)
            assert repr(ours) == repr(theirs), row["task_id"]
