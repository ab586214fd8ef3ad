"""`ReleaseEnv`: the EnvScaler release, or a part of it, as an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from lopd_envs.envscaler.corpus import Corpus
from lopd_envs.envscaler.player import WORKER_LIMITS, Worker, WorkerTools
from lopd_envs.envscaler.rules import LOPD
from lopd_envs.envscaler.scoring import FULL_PASS, official_reward
from lopd_envs.envscaler.splits import SPLITS, split_tasks
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.sandbox import Limits, Sandbox
from lopd_gym.tasks import TRAIN_SPLIT, Check, Task


class ReleaseEnv(ToolEnv):
    """EnvScaler's environments and scored tasks, played in a worker process.

    The class sources and checks are third-party code: they run behind the sandbox contract, in a
    process that this environment keeps from episode to episode. The score is EnvScaler's reward;
    success is a full pass. ``rules`` are LOPD's protocol unless given.
    """

    name: ClassVar[str] = "envscaler"
    success_threshold: ClassVar[float] = FULL_PASS
    blocking: ClassVar[bool] = True

    def __init__(
        self,
        corpus: Corpus,
        sandbox: Sandbox,
        split: str = TRAIN_SPLIT,
        rules: EpisodeRules | None = None,
        limits: Limits = WORKER_LIMITS,
    ) -> None:
        super().__init__(split, rules or LOPD)
        self._corpus = corpus
        self._sandbox = sandbox
        self._worker = Worker(sandbox, limits)
        self._noop_worker = Worker(sandbox, limits)
        self._noop_checks: dict[str, tuple[Check, ...]] = {}
        self._tools: WorkerTools | None = None
        self.tasks(split)

    def splits(self) -> tuple[str, ...]:
        """Return the names of all splits."""
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of a split; raises `UsageError` for a split that does not exist."""
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
        return tuple(split_tasks(self._corpus)[split].values())

    def find(self, task_id: str) -> Task:
        """Return the task with this id in the current split; raises `UsageError` if absent."""
        task = split_tasks(self._corpus)[self.split].get(task_id)
        return task or super().find(task_id)

    def open(self, task: Task, seed: int) -> WorkerTools:
        """Open a task in the worker; ``seed`` starts its uuids and random numbers."""
        self._tools = self._start(self._worker, task, seed)
        return self._tools

    def verify(self) -> Sequence[Check]:
        """Evaluate the open task's checks on the current state."""
        if self.task is None or self._tools is None:
            raise UsageError("No task is open, so there is nothing to verify: call reset() first.")
        return self._tools.verify(self.task.data["checks"])

    def score(self, checks: Sequence[Check]) -> float:
        """Return EnvScaler's reward."""
        return official_reward(checks)

    @property
    def isolation(self) -> str:
        """The level of the sandbox that plays the class sources."""
        return self._sandbox.isolation.label

    def data_hash(self) -> str:
        """Return the hash of the loaded environments and scenarios."""
        return self._corpus.hash

    def noop_checks(self, task_id: str) -> tuple[Check, ...]:
        """Return a task's checks on its untouched state; the open episode is left alone."""
        if task_id not in self._noop_checks:
            task = self.find(task_id)
            tools = self._start(self._noop_worker, task, seed=0)
            self._noop_checks[task_id] = tools.verify(task.data["checks"])
        return self._noop_checks[task_id]

    def noop_score(self, task_id: str) -> float:
        """Return the reward for doing nothing in a task."""
        return official_reward(self.noop_checks(task_id))

    def close(self) -> None:
        """End the worker processes; may be called twice."""
        self._worker.close()
        self._noop_worker.close()

    def _start(self, worker: Worker, task: Task, seed: int) -> WorkerTools:
        environment = self._corpus.environments[task.group]
        opening: dict[str, Any] = {
            "op": "open",
            "source": environment.source,
            "class_name": environment.class_name,
            "tools": [tool.name for tool in environment.tools],
            "init_config": task.data["init_config"],
            "seed": seed,
        }
        return WorkerTools(worker, opening, environment.tools)
