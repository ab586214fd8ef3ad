"""Small programs to write, made for this project, for where no data is given.

Each family is one kind of program that reads numbers or words and prints a line, in a few
variants. They have made-up contest dates, so that the splits are the windows of the benchmark.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache

from lopd_envs.livecodebench.corpus import Corpus, Problem
from lopd_envs.livecodebench.testcases import TestCase

_PUBLIC, _PRIVATE = 2, 6
_VARIANTS = range(2, 9)
_DATES = (date(2024, 1, 1),) * 4 + (date(2024, 9, 1),) * 2 + (date(2025, 3, 1),)
"""The date of each variant: four to train on, two in ``v5``, one in ``v6``."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of program. ``{}`` in its texts stands for the variant, a number.

    ``program`` is a reference as source, ``solve`` gives what it prints.
    """

    name: str
    task: str
    program: str
    solve: Callable[[list[int], int], object]


FAMILIES = (
    Family(
        "sum-plus-{}",
        "print their sum plus {}",
        "print(sum(map(int, input().split())) + {})",
        lambda numbers, k: sum(numbers) + k,
    ),
    Family(
        "largest-times-{}",
        "print the largest of them times {}",
        "print(max(map(int, input().split())) * {})",
        lambda numbers, k: k * sorted(numbers)[-1],
    ),
    Family(
        "count-above-{}",
        "print how many of them are greater than {}",
        "print(sum(int(n) > {} for n in input().split()))",
        lambda numbers, k: len([n for n in numbers if n > k]),
    ),
    Family(
        "multiples-of-{}",
        "print those that can be divided by {} without a rest, in the same order, or NONE if there "
        "are none",
        "print(*[n for n in input().split() if int(n) % {} == 0] or ['NONE'])",
        lambda numbers, k: " ".join(str(n) for n in numbers if n % k == 0) or "NONE",
    ),
    Family(
        "first-{}-reversed",
        "print the first {} of them (all, if there are fewer) in reverse order",
        "print(*input().split()[:{}][::-1])",
        lambda numbers, k: " ".join(str(n) for n in reversed(numbers[:k])),
    ),
    Family(
        "rest-of-{}",
        "print the rest of dividing their sum by {}",
        "print(sum(map(int, input().split())) % {})",
        lambda numbers, k: sum(n % k for n in numbers) % k,
    ),
)


@cache
def starter_corpus() -> Corpus:
    """Return all starter programs."""
    problems, references = {}, {}
    for k, published in zip(_VARIANTS, _DATES, strict=True):
        for family in FAMILIES:
            problem = _problem(family, k, published)
            problems[problem.id] = problem
            references[problem.id] = family.program.format(k)
    digest = hashlib.sha256()
    for problem in problems.values():
        digest.update(repr((problem.statement, problem.tests())).encode())
    return Corpus(problems, digest.hexdigest(), "starter", references)


def _problem(family: Family, k: int, published: date) -> Problem:
    name = family.name.format(k)
    rng = random.Random(name)
    tests = []
    for _ in range(_PUBLIC + _PRIVATE):
        numbers = [rng.randint(0, 30) for _ in range(rng.randint(1, 9))]
        line = " ".join(map(str, numbers))
        output = f"{family.solve(numbers, k)}\n"
        tests.append(TestCase(input=f"{line}\n", output=output, testtype="stdin"))
    public = tuple(tests[:_PUBLIC])
    shown = "\n\n".join(f"Input:\n{t.input}Output:\n{t.output.rstrip()}" for t in public)
    return Problem(
        id=name,
        title=name.replace("-", " ").capitalize(),
        statement=f"A line holds whole numbers. Read it and {family.task.format(k)}.\n\n{shown}",
        published=published,
        starter_code="",
        difficulty="easy",
        function="",
        public=public,
        private=tuple(tests[_PUBLIC:]),
    )
