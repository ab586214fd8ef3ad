"""Episodes of a phase, played in chunks: what is finished survives a kill.

A chunk always holds the same jobs, so the episodes of a resumed phase share their batches with
the same neighbours as in an undisturbed one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lopd_gym.env import episode_seed
from lopd_gym.episode import Episode, append_episodes, read_episodes
from lopd_gym.errors import InfrastructureError
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.base import Policy
from lopd_gym.run.build import env_maker, model_policy
from lopd_gym.run.progress import Reporter
from lopd_gym.run.settings import RunSettings
from lopd_gym.tasks import TRAIN_SPLIT, Task

if TYPE_CHECKING:
    from lopd_gym.policy.backbone import Backbone

OnEpisode = Callable[[Episode], None]

_CHUNKS_PER_BATCH = 2
"""A chunk is this many times the concurrency: long enough to keep the batch full."""


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


def play_phase(
    loop: AgentLoop,
    jobs: Sequence[Job],
    path: Path,
    on_episode: OnEpisode,
    max_failure_rate: float,
) -> list[Episode]:
    """Play all jobs, appending to ``path``; chunks that are already there are not played again.

    Raises:
        InfrastructureError: More episodes failed than ``max_failure_rate`` allows.
    """
    chunk = _CHUNKS_PER_BATCH * loop.limits.concurrency
    episodes = list(read_episodes(path))
    whole = len(episodes) if len(episodes) == len(jobs) else len(episodes) // chunk * chunk
    if path.exists():
        keep_episodes(path, whole)
    episodes = episodes[:whole]
    for episode in episodes:
        on_episode(episode)
    for start in range(whole, len(jobs), chunk):
        played = loop.play(jobs[start : start + chunk], on_episode)
        append_episodes(path, played)
        episodes += played
        check_failures(episodes, max_failure_rate)
    return episodes


def keep_episodes(path: Path, count: int) -> None:
    """Cut an episode file down to its first ``count`` episodes."""
    temporary = path.with_name(f".{path.name}.tmp")
    with path.open(encoding="utf-8") as lines, temporary.open("w", encoding="utf-8") as out:
        for _, line in zip(range(count), lines, strict=False):
            out.write(line)
    temporary.replace(path)


def check_failures(episodes: Sequence[Episode], max_rate: float) -> None:
    """Raise `InfrastructureError` when too many episodes failed; a few early ones may."""
    failed = [e for e in episodes if e.failed]
    if len(failed) > max(3, max_rate * len(episodes)):
        example = failed[-1].outcome.error
        raise InfrastructureError(
            f"{len(failed)} of {len(episodes)} episodes failed for reasons of infrastructure, more "
            f"than max_failure_rate={max_rate} allows; the last one: {example}"
        )


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
