"""Our own splits of EnvScaler, by environment; the release comes with none.

``train``; ``test``, all tasks of other environments; ``test_tasks``, held-out tasks of the training
environments. `splits.json` lists them for the whole release and says by which rule; a part of the
release has the same tasks in the same splits. A task that cannot be scored is in none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lopd_envs.envscaler.corpus import Corpus, Scenario
from lopd_envs.envscaler.prompt import opening
from lopd_gym.errors import DataError
from lopd_gym.tasks import TRAIN_SPLIT, Task

TEST, TEST_TASKS = "test", "test_tasks"
SPLITS = (TRAIN_SPLIT, TEST, TEST_TASKS)


@dataclass(frozen=True)
class SplitManifest:
    """Which environments and which task numbers make up the splits, and a hash of that."""

    name: str
    hash: str
    train: frozenset[str]
    test: frozenset[str]
    held_out_task_numbers: frozenset[int]

    def split_of(self, scenario: Scenario) -> str | None:
        """Return the split of a scenario; None for an environment that the release has not."""
        if scenario.env_id in self.test:
            return TEST
        if scenario.env_id not in self.train:
            return None
        number = scenario.id.rpartition("_")[2]
        held_out = number.isdecimal() and int(number) in self.held_out_task_numbers
        return TEST_TASKS if held_out else TRAIN_SPLIT


@lru_cache(maxsize=1)
def load_manifest() -> SplitManifest:
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
    return SplitManifest(
        name=plain["name"],
        hash=stated,
        train=frozenset(plain["train"]),
        test=frozenset(plain["test"]),
        held_out_task_numbers=frozenset(plain["held_out_task_numbers"]),
    )


@lru_cache(maxsize=4)
def split_tasks(corpus: Corpus) -> Mapping[str, Mapping[str, Task]]:
    """Return the tasks of every split, by id, in an order in which any first few are a mix.

    Raises:
        DataError: No scenario belongs to any split.
    """
    manifest = load_manifest()
    tasks: dict[str, dict[str, Task]] = {split: {} for split in SPLITS}
    for scenario in sorted(corpus.scenarios, key=_shuffled):
        split = manifest.split_of(scenario)
        if split is not None and corpus.playable(scenario):
            tasks[split][scenario.id] = _task(corpus, scenario, split)
    if not any(tasks.values()):
        raise DataError(
            f"Expected scored tasks of the release's RL environments, found none among "
            f"{len(corpus.scenarios)} scenarios."
        )
    return tasks


def _shuffled(scenario: Scenario) -> str:
    return hashlib.sha256(scenario.id.encode()).hexdigest()


def _task(corpus: Corpus, scenario: Scenario, split: str) -> Task:
    return Task(
        id=scenario.id,
        split=split,
        messages=opening(corpus.environments[scenario.env_id], scenario),
        group=scenario.env_id,
        data={"init_config": scenario.init_config, "checks": scenario.checks},
    )
