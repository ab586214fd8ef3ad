"""Held-out evaluation: the first tasks of a split, always with the same seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lopd_gym.env import ToolEnv
from lopd_gym.episode import GREEDY, Episode, Sampling
from lopd_gym.errors import UsageError
from lopd_gym.loop import AgentLoop
from lopd_gym.policy.base import Policy
from lopd_gym.run.build import env_maker
from lopd_gym.run.phase import play_phase
from lopd_gym.run.progress import Reporter
from lopd_gym.run.rollouts import evaluation_jobs
from lopd_gym.run.settings import RunSettings
from lopd_gym.stats import Interval, mean_interval, paired_difference, wilson_interval


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The episodes of one evaluation; failed ones are counted and left out of every average."""

    name: str
    episodes: tuple[Episode, ...]

    @property
    def failed(self) -> int:
        """How many episodes failed for reasons of infrastructure."""
        return sum(e.failed for e in self.episodes)

    def successes(self) -> dict[str, float]:
        """Success of each task that did not fail, by task id."""
        return {e.task_id: float(e.outcome.success) for e in self.episodes if not e.failed}

    def scores(self) -> dict[str, float]:
        """Score of each task that did not fail, by task id."""
        return {e.task_id: s for e in self.episodes if (s := e.outcome.score) is not None}

    def success(self) -> Interval:
        """Rate of success with its 95 % (Wilson) interval over tasks."""
        values = self.successes().values()
        return wilson_interval(int(sum(values)), len(values))

    def score(self) -> Interval:
        """Mean score with its 95 % interval over tasks."""
        return mean_interval(_values(self.scores()))

    def gain_over(self, other: Evaluation) -> Interval:
        """Paired difference in success to another evaluation, over the tasks of both."""
        ours, theirs = self.successes(), other.successes()
        shared = [t for t in ours if t in theirs]
        before, after = ([by_task[t] for t in shared] for by_task in (theirs, ours))
        return paired_difference(np.array(before), np.array(after))


def _values(by_task: dict[str, float]) -> NDArray[np.float64]:
    return np.array(list(by_task.values()), dtype=np.float64)


def evaluation_tasks(env: ToolEnv, split: str, count: int) -> list[str]:
    """Return the ids of the first ``count`` tasks of a split, or of all if it holds fewer."""
    tasks = env.tasks(split)
    if not len(tasks):
        raise UsageError(f"The split '{split}' of '{env.label}' holds no task to evaluate on.")
    return [tasks[i].id for i in range(min(count, len(tasks)))]


def evaluation_modes(settings: RunSettings) -> dict[str, Sampling]:
    """Return the ways in which a model is evaluated: as the run samples, and greedily."""
    modes = {"sampled": settings.sampling}
    return {**modes, "greedy": GREEDY} if settings.evaluation.greedy else modes


def evaluate(
    name: str,
    policy: Policy,
    sampling: Sampling,
    task_ids: Sequence[str],
    settings: RunSettings,
    path: Path,
    reporter: Reporter,
) -> Evaluation:
    """Play the tasks once each and keep the episodes in ``path``; resumes what is there."""
    jobs = evaluation_jobs(task_ids, settings.evaluation.seed)
    make_env = env_maker(settings.env, settings.evaluation.split)
    with (
        AgentLoop(make_env, policy, sampling, settings.limits) as loop,
        reporter.phase(f"evaluate {name}", len(jobs)) as phase,
    ):
        won = 0

        def on_episode(episode: Episode) -> None:
            nonlocal won
            won += episode.outcome.success
            phase.advance(note=f"{won} solved")

        episodes = play_phase(loop, jobs, path, on_episode, settings.max_failure_rate)
    return Evaluation(name, tuple(episodes))
