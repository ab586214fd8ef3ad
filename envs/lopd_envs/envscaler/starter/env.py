"""`StarterEnv`: the starter suite as an environment, with its splits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, overload

from lopd_envs.envscaler.starter.domains import DOMAINS, HELD_OUT_DOMAINS, TRAIN_DOMAINS
from lopd_envs.envscaler.starter.generate import make_task
from lopd_envs.envscaler.starter.play import check, open_world, solve
from lopd_envs.envscaler.starter.world import World
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.messages import AssistantMessage
from lopd_gym.tasks import TRAIN_SPLIT, Check, Task
from lopd_gym.tools import MethodTools, compact_json

STARTER_RULES = EpisodeRules(max_turns=12)
SPLITS: dict[str, tuple[tuple[str, ...], int]] = {
    TRAIN_SPLIT: (TRAIN_DOMAINS, 2_000),
    "test": (TRAIN_DOMAINS, 200),
    "test_domains": (HELD_OUT_DOMAINS, 200),
}
"""For each split: its domains, and how many tasks each of them has."""

_HASHED_TASKS = 160


class StarterTasks(Sequence[Task]):
    """The tasks of a split, made when asked for; successive tasks are of different domains."""

    def __init__(self, split: str) -> None:
        self._split = split
        self._domains, self._per_domain = SPLITS[split]

    def __len__(self) -> int:
        return len(self._domains) * self._per_domain

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        domain = self._domains[number % len(self._domains)]
        return make_task(domain, self._split, number // len(self._domains))


class StarterEnv(ToolEnv):
    """Small stateful tool domains with hidden house rules, written for this project.

    Splits: ``train``; ``test`` (other tasks of the same domains); ``test_domains`` (domains that
    training never sees). The worlds are first-party code and run in this process.
    """

    name: ClassVar[str] = "envscaler"
    world: World

    def __init__(self, split: str = TRAIN_SPLIT, rules: EpisodeRules | None = None) -> None:
        super().__init__(split, rules or STARTER_RULES)
        self.tasks(split)

    @property
    def label(self) -> str:
        """What scores are labelled with."""
        return "envscaler:starter"

    def splits(self) -> tuple[str, ...]:
        """Return the names of all splits."""
        return tuple(SPLITS)

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raises `UsageError` for a split that does not exist."""
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
        return StarterTasks(split)

    def find(self, task_id: str) -> Task:
        """Return the task with this id in the current split; raises `UsageError` if absent."""
        domains, per_domain = SPLITS[self.split]
        domain, _, number = task_id.partition(f"/{self.split}/")
        if domain in domains and number.isdecimal() and int(number) < per_domain:
            task = make_task(domain, self.split, int(number))
            if task.id == task_id:
                return task
        raise UsageError(
            f"No task '{task_id}' in split '{self.split}' of '{self.label}': ids look like "
            f"'{domains[0]}/{self.split}/000000', with numbers below {per_domain}."
        )

    def open(self, task: Task, seed: int) -> MethodTools:
        """Build the task's world and return its tools; nothing in it is random."""
        self.world = open_world(task)
        return MethodTools(self.world)

    def verify(self) -> Sequence[Check]:
        """Check the goals of the open task."""
        if self.task is None:
            raise UsageError("No task is open, so there is nothing to verify: call reset() first.")
        return check(self.world, self.task)

    def oracle(self, task: Task) -> Sequence[AssistantMessage]:
        """Return turns that solve the task."""
        return solve(task, DOMAINS[task.group].true_rules)

    def data_hash(self) -> str:
        """Return a hash of the first tasks of every split, with tools and solutions."""
        digest = hashlib.sha256()
        for split in SPLITS:
            for task in self.tasks(split)[:_HASHED_TASKS]:
                parts = (task, DOMAINS[task.group].specs(), self.oracle(task))
                digest.update(compact_json([repr(p) for p in parts]).encode())
        return digest.hexdigest()[:16]
