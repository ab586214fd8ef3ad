"""The splits: the leaderboard's categories, and a train and a test half of the multi-turn ones.

The leaderboard is made for evaluation and has no training data; whoever trains on ``train`` should
say so. `splits.json` lists the scenario numbers of ``train`` and says by which rule. The four
variants of a scenario are in the same half.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lopd_envs.bfcl.corpus import CATEGORIES, MULTI_TURN, Entry, load_category
from lopd_envs.bfcl.prompts import Protocol, opening
from lopd_envs.bfcl.wheel import Wheel
from lopd_gym.errors import DataError
from lopd_gym.tasks import TRAIN_SPLIT, Task

TEST = "test"
SPLITS = (TRAIN_SPLIT, TEST, *CATEGORIES)


@lru_cache(maxsize=1)
def training_numbers() -> frozenset[int]:
    """Return the scenario numbers of ``train``.

    Raises:
        DataError: The shipped manifest does not have the hash it states.
    """
    plain: dict[str, Any] = json.loads(
        files(__package__).joinpath("splits.json").read_text("utf-8")
    )
    stated = plain.pop("sha256")
    found = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    if found != stated:
        raise DataError(
            f"splits.json: expected SHA-256 {stated}, found {found}; reinstall lopd-gym."
        )
    return frozenset(plain["train"])


@lru_cache(maxsize=64)
def split_tasks(wheel: Wheel, split: str, protocol: Protocol) -> dict[str, Task]:
    """Return the tasks of a split by id, in an order in which any first few are a mix."""
    if split in CATEGORIES:
        entries = load_category(wheel, split)
    else:
        every = [entry for category in MULTI_TURN for entry in load_category(wheel, category)]
        in_train = split == TRAIN_SPLIT
        entries = tuple(e for e in every if (e.number in training_numbers()) == in_train)
    return {e.id: _task(wheel, e, split, protocol) for e in sorted(entries, key=_shuffled)}


def _shuffled(entry: Entry) -> str:
    return hashlib.sha256(entry.id.encode()).hexdigest()


def _task(wheel: Wheel, entry: Entry, split: str, protocol: Protocol) -> Task:
    return Task(
        id=entry.id,
        split=split,
        messages=opening(wheel, entry, protocol),
        group=entry.category,
        data={"entry": entry},
    )
