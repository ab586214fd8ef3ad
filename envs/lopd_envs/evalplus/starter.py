"""Small programming tasks written for this project, for where no release is present.

Each family is one kind of function with a few variants: a name, what it does in words, and a
reference as source. They are easy on purpose: what they show is the whole chain at work. Splits:
``train``; ``test``, other variants of the same families; ``test_families``, families that training
never sees.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from lopd_envs.evalplus.corpus import Corpus, Problem
from lopd_gym.tasks import TRAIN_SPLIT

_TEST, _TEST_FAMILIES = "test", "test_families"
_BASE, _PLUS = 4, 12
_HELD_OUT_VARIANTS = 3
"""Of every family, so many variants are kept for ``test``."""

Draw = Callable[[random.Random], list[Any]]
"""Draws the arguments of one call."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of task. ``{}`` in its texts stands for the variant.

    ``body`` is the reference's source. ``solve`` gives the same result from argument and variant,
    for the example in the statement.
    """

    name: str
    parameters: str
    task: str
    body: str
    variants: tuple[Any, ...]
    draw: Draw
    solve: Callable[[Any, Any], Any]
    held_out: bool = False


def _numbers(rng: random.Random) -> list[Any]:
    return [[rng.randint(-20, 20) for _ in range(rng.randint(0, 8))]]


def _number(rng: random.Random) -> list[Any]:
    return [rng.randint(-50, 50)]


def _words(rng: random.Random) -> list[Any]:
    return [[_word(rng) for _ in range(rng.randint(0, 6))]]


def _text(rng: random.Random) -> list[Any]:
    return [" ".join(_word(rng) for _ in range(rng.randint(0, 5)))]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdeinorst") for _ in range(rng.randint(1, 6)))


FAMILIES: tuple[Family, ...] = (
    Family(
        "add_{}",
        "number: int",
        "Return the number plus {}.",
        "return number + {}",
        tuple(range(2, 12)),
        _number,
        lambda x, v: x + v,
    ),
    Family(
        "times_{}",
        "numbers: list[int]",
        "Return a list with every number multiplied by {}.",
        "return [{} * n for n in numbers]",
        tuple(range(2, 12)),
        _numbers,
        lambda x, v: [v * n for n in x],
    ),
    Family(
        "sum_above_{}",
        "numbers: list[int]",
        "Return the sum of the numbers that are greater than {}.",
        "return sum(n for n in numbers if n > {})",
        tuple(range(10)),
        _numbers,
        lambda x, v: sum(n for n in x if n > v),
    ),
    Family(
        "count_multiples_of_{}",
        "numbers: list[int]",
        "Count the numbers that can be divided by {} without a rest.",
        "return sum(n % {} == 0 for n in numbers)",
        tuple(range(2, 12)),
        _numbers,
        lambda x, v: sum(n % v == 0 for n in x),
    ),
    Family(
        "count_letter_{}",
        "text: str",
        "Count how often the letter '{}' comes in the text.",
        "return text.count('{}')",
        tuple("abcdeinors"),
        _text,
        lambda x, v: sum(c == v for c in x),
    ),
    Family(
        "words_longer_than_{}",
        "words: list[str]",
        "Return the words that have more than {} letters, in the same order.",
        "return [w for w in words if len(w) > {}]",
        tuple(range(1, 6)),
        _words,
        lambda x, v: [w for w in x if len(w) > v],
    ),
    Family(
        "largest_{}",
        "numbers: list[int]",
        "Return the {} largest numbers, the largest first; all of them if there are fewer.",
        "return sorted(numbers, reverse=True)[:{}]",
        tuple(range(2, 9)),
        _numbers,
        lambda x, v: sorted(x, reverse=True)[:v],
    ),
    Family(
        "every_{}th_letter",
        "text: str",
        "Return the first letter of the text and every {}th letter after it.",
        "return text[::{}]",
        tuple(range(4, 12)),
        _text,
        lambda x, v: "".join(x[i] for i in range(0, len(x), v)),
    ),
    Family(
        "positions_of_{}",
        "numbers: list[int]",
        "Return the positions, counted from 0, at which the list holds the number {}.",
        "return [i for i, n in enumerate(numbers) if n == {}]",
        tuple(range(-4, 5)),
        _numbers,
        lambda x, v: [i for i in range(len(x)) if x[i] == v],
    ),
    Family(
        "starts_with_{}",
        "words: list[str]",
        "Return how many words start with the letter '{}'.",
        "return sum(w.startswith('{}') for w in words)",
        tuple("abcdeinors"),
        _words,
        lambda x, v: len([w for w in x if w[0] == v]),
    ),
    Family(
        "rotate_by_{}",
        "numbers: list[int]",
        "Move the first {} numbers, one after the other, to the end of the list, and return it. "
        "An empty list stays empty.",
        "if not numbers:\n        return []\n    k = {} % len(numbers)\n"
        "    return numbers[k:] + numbers[:k]",
        tuple(range(2, 9)),
        _numbers,
        lambda x, v: [x[(i + v) % len(x)] for i in range(len(x))],
        held_out=True,
    ),
    Family(
        "clip_at_{}",
        "numbers: list[int]",
        "Return a list in which every number above {0} is replaced by {0}.",
        "return [min(n, {}) for n in numbers]",
        tuple(range(8)),
        _numbers,
        lambda x, v: [v if n > v else n for n in x],
        held_out=True,
    ),
    Family(
        "replace_{}_by_a_dash",
        "text: str",
        "Return the text with every letter '{}' replaced by '-'.",
        "return text.replace('{}', '-')",
        tuple("abcdeinors"),
        _text,
        lambda x, v: "".join("-" if c == v else c for c in x),
        held_out=True,
    ),
)


@cache
def starter_corpus() -> Corpus:
    """Return all starter tasks, with their splits."""
    problems: dict[str, Problem] = {}
    splits: dict[str, list[str]] = {TRAIN_SPLIT: [], _TEST: [], _TEST_FAMILIES: []}
    for family, index, number in _mixed():
        problem = _problem(family, family.variants[index], f"Starter/{number:03d}")
        problems[problem.id] = problem
        in_test = index >= len(family.variants) - _HELD_OUT_VARIANTS
        split = _TEST_FAMILIES if family.held_out else _TEST if in_test else TRAIN_SPLIT
        splits[split].append(problem.id)
    digest = hashlib.sha256()
    for problem in problems.values():
        digest.update(repr((problem.prompt, problem.reference, problem.inputs)).encode())
    return Corpus(problems, digest.hexdigest(), "starter", splits)


def _mixed() -> Iterator[tuple[Family, int, int]]:
    """Yield (family, index of its variant, number of the task): first all first variants."""
    number = 0
    for index in range(max(len(f.variants) for f in FAMILIES)):
        for family in FAMILIES:
            if index < len(family.variants):
                yield family, index, number
                number += 1


def _problem(family: Family, variant: Any, task_id: str) -> Problem:
    entry_point = family.name.format(str(variant).replace("-", "minus_"))
    rng = random.Random(task_id)
    inputs = [family.draw(rng) for _ in range(_BASE + _PLUS)]
    body = family.body.format(variant)
    signature = f"def {entry_point}({family.parameters}):\n"
    (argument,) = inputs[0]
    example = f">>> {entry_point}({argument!r})\n    {family.solve(argument, variant)!r}"
    docstring = f'    """{family.task.format(variant)}\n\n    {example}\n    """\n'
    return Problem(
        id=task_id,
        prompt=signature + docstring,
        entry_point=entry_point,
        reference=f"{signature}{docstring}    {body}\n",
        base=tuple(inputs[:_BASE]),
        plus=tuple(inputs[_BASE:]),
    )
