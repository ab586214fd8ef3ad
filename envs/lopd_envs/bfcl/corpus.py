"""BFCL's entries with their answers and function documents, as read from the wheel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from lopd_envs.bfcl.calls import Call, parse_call
from lopd_envs.bfcl.wheel import API_MODULES, Wheel
from lopd_gym.errors import DataError

MULTI_TURN = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
NON_LIVE_AST = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
)
LIVE_AST = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
ABSTENTION = ("irrelevance", "live_irrelevance")
RELEVANCE = (*ABSTENTION, "live_relevance")
SINGLE_TURN = (*NON_LIVE_AST, *LIVE_AST, *RELEVANCE)
CATEGORIES = (*MULTI_TURN, *SINGLE_TURN)

_V3_NAMES = {"simple_python": "simple", "simple_java": "java", "simple_javascript": "javascript"}

Document = dict[str, Any]
"""BFCL's description of a function: name, description, parameters, and at times the response."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One entry of the benchmark; never changed after loading.

    Attributes:
        id: Upstream's id.
        category: One of `CATEGORIES`.
        turns: The messages that open each turn; empty where functions are added instead.
        functions: The documents offered from the start.
        added: The documents added at the start of a turn, by its index.
        answer: Single-turn: for each expected call its allowed values; empty where there is none.
        truth: Multi-turn: the expected calls of each turn.
        raw: Upstream's record, which the multi-turn checker and the APIs' initial states need.
    """

    id: str
    category: str
    turns: tuple[tuple[Mapping[str, str], ...], ...]
    functions: tuple[Document, ...]
    added: Mapping[int, tuple[Document, ...]] = field(default_factory=dict)
    answer: tuple[Mapping[str, Mapping[str, list[Any]]], ...] = ()
    truth: tuple[tuple[Call, ...], ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def multi_turn(self) -> bool:
        """Whether a simulated user goes on after the first turn."""
        return self.category in MULTI_TURN

    @property
    def language(self) -> str:
        """The language whose syntax the functions' arguments follow."""
        return self.category.removeprefix("simple_") if "java" in self.category else "python"

    @property
    def number(self) -> int:
        """The number of a multi-turn entry; equal numbers are variants of one scenario."""
        return int(self.id.rpartition("_")[2])


@lru_cache(maxsize=64)
def load_category(wheel: Wheel, category: str) -> tuple[Entry, ...]:
    """Load the entries of one category, in upstream's order.

    Raises:
        DataError: A file is missing or not of the expected shape.
    """
    prefix = wheel.release.prefix
    name = _V3_NAMES.get(category, category) if prefix == "BFCL_v3" else category
    file = f"{prefix}_{name}.json"
    records = read_lines(wheel.folder / "data" / file)
    if category in RELEVANCE:
        return tuple(_single_turn(category, record, []) for record in records)
    answers = read_lines(wheel.folder / "data" / "possible_answer" / file)
    if [r["id"] for r in records] != [a["id"] for a in answers]:
        raise DataError(f"{file}: expected answers with the ids of the questions, found others.")
    truths = [answer["ground_truth"] for answer in answers]
    if category in MULTI_TURN:
        return tuple(map(partial(_multi_turn, wheel, category), records, truths))
    return tuple(map(partial(_single_turn, category), records, truths))


def read_lines(path: Path) -> list[Any]:
    """Read a JSON-lines file; raises `DataError` where it is missing or damaged."""
    try:
        with path.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as err:
        raise DataError(f"Expected JSON lines in {path}, found a fault ({err}).") from err


def _single_turn(category: str, record: Any, truth: Any) -> Entry:
    return Entry(
        id=record["id"],
        category=category,
        turns=tuple(tuple(turn) for turn in record["question"]),
        functions=tuple(record["function"]),
        answer=tuple(truth),
    )


def _multi_turn(wheel: Wheel, category: str, record: Any, truth: Any) -> Entry:
    documents = {
        d["name"]: d for name in record["involved_classes"] for d in _documents(wheel, name)
    }
    added = {
        int(turn): tuple(documents.pop(name) for name in names)
        for turn, names in record.get("missed_function", {}).items()
    }
    return Entry(
        id=record["id"],
        category=category,
        turns=tuple(tuple(turn) for turn in record["question"]),
        functions=tuple(documents.values()),
        added=added,
        truth=tuple(tuple(parse_call(c) for c in turn) for turn in truth),
        raw=record,
    )


@lru_cache(maxsize=32)
def _documents(wheel: Wheel, api: str) -> tuple[Document, ...]:
    path = wheel.folder / "data" / "multi_turn_func_doc" / f"{API_MODULES[api]}.json"
    return tuple(read_lines(path))
