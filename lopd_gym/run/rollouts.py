"""Which jobs a run plays: for evaluation, for training, for the bank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lopd_gym.env import episode_seed
from lopd_gym.episode import Episode
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.base import Policy
from lopd_gym.run.build import env_maker, model_policy
from lopd_gym.run.phase import play_phase
from lopd_gym.run.progress import Reporter
from lopd_gym.run.settings import RunSettings
from lopd_gym.tasks import TRAIN_SPLIT, Task

if TYPE_CHECKING:
    from lopd_gym.policy.backbone import Backbone


def training_loop(policy: Policy, settings: RunSettings) -> AgentLoop:
    """Return a loop that plays training tasks with the settings' sampling and limits."""
    make_env = env_maker(settings.env, TRAIN_SPLIT)
    return AgentLoop(make_env, policy, settings.sampling, settings.limits)


def play_for_bank(
    backbone: Backbone,
    tasks: Sequence[Task],
    count: int,
    settings: RunSettings,
    path: Path,
    reporter: Reporter,
) -> list[Episode]:
    """Play the base model on training tasks, to find successes worth remembering."""
    jobs = training_jobs(tasks, settings.seed, "bank", 0, count)
    policy = model_policy(backbone, "base", settings.sampling, settings)
    with (
        training_loop(policy, settings) as loop,
        reporter.phase("fill the bank", count) as phase,
    ):
        rate = settings.max_failure_rate
        return play_phase(loop, jobs, path, lambda episode: phase.advance(), rate)


def evaluation_jobs(task_ids: Sequence[str], seed: int) -> list[Job]:
    """One job for each task; the seed depends on the evaluation's seed and the task alone."""
    return [Job(t, episode_seed(seed, "evaluation", t)) for t in task_ids]


def training_jobs(
    tasks: Sequence[Task], seed: int, stream: str, first: int, count: int, group_size: int = 1
) -> list[Job]:
    """Jobs number ``first`` and on of an endless, seeded shuffle of the tasks.

    Every task comes once in each epoch, ``group_size`` times in a row. All streams go through the
    tasks in the same order; they differ in the seeds of the episodes.
    """
    jobs = []
    for number in range(first, first + count):
        draw, attempt = divmod(number, group_size)
        epoch, position = divmod(draw, len(tasks))
        task_id = tasks[int(_shuffle(len(tasks), seed, epoch)[position])].id
        jobs.append(Job(task_id, episode_seed(seed, stream, task_id, epoch, attempt), attempt))
    return jobs


@lru_cache(maxsize=4)
def _shuffle(size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(episode_seed(seed, "shuffle", epoch))
    return rng.permutation(size)
