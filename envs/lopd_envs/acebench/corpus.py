"""Load ACEBench's data, English or Chinese, as it lies in upstream's ``data_all`` folder.

Loading checks shape and that tasks and answers belong together; it executes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lopd_gym.data import sha256
from lopd_gym.errors import DataError, unknown_name

LANGUAGES = ("en", "zh")
NORMAL = (
    "normal_single_turn_single_function",
    "normal_single_turn_parallel_function",
    "normal_multi_turn_user_adjust",
    "normal_multi_turn_user_switch",
    "normal_similar_api",
    "normal_preference",
    "normal_atom_bool",
    "normal_atom_enum",
    "normal_atom_number",
    "normal_atom_list",
    "normal_atom_object_deep",
    "normal_atom_object_short",
)
SPECIAL = ("special_incomplete", "special_error_param", "special_irrelevant")
MULTI_STEP, MULTI_TURN = "agent_multi_step", "agent_multi_turn"
AGENT = (MULTI_STEP, MULTI_TURN)
CATEGORIES = NORMAL + SPECIAL + AGENT

PINNED = {
    "en": "0d997b7ccc0d745d60eaf22a2702497f6378ff0c22c99f9ae003d3c450dac510",
    "zh": "9152fac05089666abac7f11d38898740ab3106b448332fd2fec8c5d2d6e72d45",
}
"""Hashes of the whole data at upstream's commit 56dd66cf (2025-10-29)."""

_SOURCE = "https://github.com/chenchen0103/ACEBench"


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One task with its answer.

    ``fields`` is the task's JSON; ``milestones`` are an agent's. A row is equal to itself only.
    """

    id: str
    category: str
    fields: Mapping[str, Any]
    truth: Any
    milestones: Any = None

    @property
    def kind(self) -> str:
        """The part of the benchmark it belongs to: ``normal``, ``special`` or ``agent``."""
        return self.category.partition("_")[0]

    @property
    def dialogue(self) -> str:
        """What is scored as one: the dialogue of a multi-turn row, else the row itself."""
        dialogues = self.kind == "normal" and "multi_turn" in self.category
        return self.id.rpartition("_")[0] if dialogues else self.id


@dataclass(frozen=True, eq=False)
class Corpus:
    """The rows of one language, by category, in upstream's order."""

    language: str
    rows: Mapping[str, tuple[Row, ...]]
    hash: str

    @property
    def pinned(self) -> bool:
        """Whether this is, whole and unchanged, the version that this package was written for."""
        return self.hash == PINNED[self.language]


@lru_cache(maxsize=4)
def load_corpus(folder: Path, language: str) -> Corpus:
    """Load all categories that a folder holds.

    Raises:
        UsageError: No such language.
        DataError: The folder holds no category, or a file is damaged or lacks its answers.
    """
    if language not in LANGUAGES:
        raise unknown_name("language of ACEBench", language, LANGUAGES)
    root = folder / f"data_{language}"
    rows, digest = {}, hashlib.sha256()
    for category in CATEGORIES:
        path = root / f"data_{category}.json"
        if not path.is_file():
            continue
        answers = root / "possible_answer" / path.name
        rows[category] = tuple(_rows(category, path, answers))
        digest.update(f"{category} {sha256(path)} {sha256(answers)}\n".encode())
    if not rows:
        raise DataError(
            f"{root}: expected ACEBench's files, like data_{CATEGORIES[0]}.json, found none; get "
            f"them with 'git clone {_SOURCE}' and give --data ACEBench/data_all."
        )
    return Corpus(language, rows, digest.hexdigest())


def _rows(category: str, path: Path, answers: Path) -> Iterator[Row]:
    tasks, truths = list(_records(path)), list(_records(answers))
    if [t["id"] for t in tasks] != [a["id"] for a in truths]:
        raise DataError(
            f"{answers}: expected the answers of {path}, row by row, found other ids: the files "
            "are of different versions, so fetch both again."
        )
    agent = category in AGENT
    needed = {"question": str, "function": list}
    needed |= {"initial_config": dict, "involved_classes": list} if agent else {}
    for task, answer in zip(tasks, truths, strict=True):
        for name, kind in needed.items():
            if not isinstance(task.get(name), kind):
                found = type(task.get(name)).__name__
                raise DataError(
                    f"{path}, {task['id']}: expected '{name}' as {kind.__name__}, found {found}."
                )
        if "ground_truth" not in answer:
            raise DataError(f"{answers}, {task['id']}: expected a ground_truth, found none.")
        yield Row(task["id"], category, task, answer["ground_truth"], answer.get("mile_stone"))


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"{path} is missing: expected the answers beside the tasks.")
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as err:
            raise DataError(
                f"{path}, line {number}: expected a JSON record, found {err}; the file is "
                "truncated or altered, so fetch it again."
            ) from err
        if not isinstance(record, dict) or not isinstance(record.get("id"), str):
            raise DataError(f"{path}, line {number}: expected a record with an id.")
        yield record
