"""The splits: one for each category and each part of the benchmark, and our own train and test.

Upstream publishes all of it as a test. Whoever trains on it uses ``train`` and evaluates on
``test``: `splits.json` says which rows those are, and by which rule. Rows that are one dialogue, or
variants of one task, are in the same of the two, in both languages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lopd_envs.acebench.corpus import AGENT, CATEGORIES, MULTI_TURN, NORMAL, SPECIAL, Corpus, Row
from lopd_envs.acebench.prompt import opening
from lopd_gym.errors import DataError
from lopd_gym.tasks import TRAIN_SPLIT, Task

TEST, ALL = "test", "all"
PARTS = {"normal": NORMAL, "special": SPECIAL, "agent": AGENT, ALL: CATEGORIES}


@lru_cache(maxsize=1)
def load_manifest() -> dict[str, Any]:
    """Load the shipped manifest; raises `DataError` where it does not have the hash it states."""
    plain: dict[str, Any] = json.loads(
        files(__package__).joinpath("splits.json").read_text("utf-8")
    )
    stated = plain.pop("sha256")
    found = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    if found != stated:
        raise DataError(
            f"splits.json: expected SHA-256 {stated}, found {found}; reinstall lopd-gym."
        )
    return plain


def family(row: Row) -> str:
    """Return the name of what must not be torn apart: a dialogue, or the variants of a task."""
    prefix, _, number = row.dialogue.rpartition("_")
    for first, *others in load_manifest()["variants"].get(row.category, []):
        if int(number) in others:
            return f"{prefix}_{first}"
    return row.dialogue


def in_test(row: Row) -> bool:
    """Whether a row is in ``test``, by its family, which is all that decides."""
    manifest = load_manifest()
    digest = hashlib.sha256(f"{manifest['name']}/{family(row)}".encode()).hexdigest()
    return int(digest, 16) % int(manifest["one_in"]) == 0


@lru_cache(maxsize=8)
def split_rows(corpus: Corpus, *, with_user: bool) -> Mapping[str, tuple[Row, ...]]:
    """Return the rows of every split.

    Those of ``train`` and ``test`` are in an order in which any first few are a mix.
    ``agent_multi_turn`` is in them only where there is someone to play the user.
    """
    splits = dict(corpus.rows)
    for part, categories in PARTS.items():
        rows = tuple(row for c in categories for row in corpus.rows.get(c, ()))
        splits |= {part: rows} if rows else {}
    mixed = [r for r in splits[ALL] if with_user or r.category != MULTI_TURN]
    mixed.sort(key=lambda row: hashlib.sha256(row.id.encode()).hexdigest())
    splits[TRAIN_SPLIT] = tuple(r for r in mixed if not in_test(r))
    splits[TEST] = tuple(r for r in mixed if in_test(r))
    return splits


@lru_cache(maxsize=64)
def split_tasks(
    corpus: Corpus, split: str, protocol: str, *, with_user: bool
) -> Mapping[str, Task]:
    """Return the tasks of a split by id; they are data, and shared by all environments."""
    tasks = {}
    for row in split_rows(corpus, with_user=with_user)[split]:
        messages = opening(row, corpus.language, protocol)
        tasks[row.id] = Task(row.id, split, messages, group=row.category, data={"row": row})
    return tasks
