"""Finished runs as a comparison needs them, and the check that they can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lopd_gym.episode import Episode, read_episodes
from lopd_gym.errors import UsageError
from lopd_gym.run.build import checked_preset
from lopd_gym.run.folder import RunFolder, read_json
from lopd_gym.run.settings import RunSettings
from lopd_gym.run.training import rollout_metrics

Results = dict[str, tuple[float, float]]
"""(success, score) of each task that did not fail, by task id."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run: its settings and summary, and task by task how models played, by evaluation.

    ``behaviour`` are the averages over the final student's sampled episodes.
    """

    folder: Path
    settings: RunSettings
    summary: Mapping[str, Any]
    results: Mapping[str, Results]
    behaviour: Mapping[str, float]

    @property
    def label(self) -> str:
        """The learner, with the options that differ from its preset."""
        return learner_label(self.settings.learner)


def learner_label(section: Mapping[str, Any]) -> str:
    """Name a learner by what sets it apart: ``lopd:composer=frozen``."""
    preset = checked_preset(section["name"], section["preset"])
    changed = [
        f"{option}={value}"
        for option, value in section.items()
        if option not in ("name", "preset") and preset[option] != value
    ]
    return ":".join([str(section["name"]), *([",".join(changed)] if changed else [])])


def read_run(path: Path) -> FinishedRun:
    """Read a finished run.

    Raises:
        UsageError: The folder holds no run, or one that is not finished.
    """
    folder, settings = RunFolder.existing(path)
    if not folder.summary.exists():
        raise UsageError(f"{path} is not finished: continue it with lopd-gym run --resume {path}.")
    found = {
        name: list(read_episodes(folder.episodes(name)))
        for name in ("nothing", "base-sampled", "base-greedy", "student-sampled", "student-greedy")
        if folder.episodes(name).exists()
    }
    results = {name: _results(episodes) for name, episodes in found.items()}
    behaviour = rollout_metrics(found["student-sampled"])
    return FinishedRun(path, settings, read_json(folder.summary), results, behaviour)


def _results(episodes: Sequence[Episode]) -> Results:
    return {
        e.task_id: (float(e.outcome.success), e.outcome.score)
        for e in episodes
        if e.outcome.score is not None
    }


def check_comparable(runs: Sequence[FinishedRun]) -> None:
    """Make sure that runs differ in nothing but learner and seed.

    Raises:
        UsageError: They do; the message names the first difference.
    """
    first = runs[0]
    for run in runs[1:]:
        ours, theirs = _fingerprint(first), _fingerprint(run)
        for name, value in ours.items():
            if theirs[name] != value:
                raise UsageError(
                    f"{first.folder} and {run.folder} cannot be compared: their {name} differs "
                    f"({value} and {theirs[name]})."
                )


def _fingerprint(run: FinishedRun) -> dict[str, Any]:
    settings = run.settings
    return {
        "environment": run.summary["env"],
        "data hash": run.summary["data_hash"],
        "model": settings.model.model_dump(),
        "split": settings.evaluation.split,
        "evaluation seed": settings.evaluation.seed,
        "number of evaluation tasks": settings.evaluation.tasks,
        "evaluation modes": sorted(run.summary["gain"]),
        "sampling": settings.sampling,
        "budget of rollouts": settings.rollouts,
        "limits": (settings.limits, settings.max_new_tokens),
    }


def by_learner(runs: Sequence[FinishedRun]) -> dict[str, list[FinishedRun]]:
    """Group runs by learner, in the order given, each sorted by seed.

    Raises:
        UsageError: A learner has a seed twice, or learners have different seeds.
    """
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    wanted: list[int] = sorted(run.settings.seed for run in next(iter(groups.values())))
    for label, mine in groups.items():
        mine.sort(key=lambda run: run.settings.seed)
        seeds = [run.settings.seed for run in mine]
        if len(set(seeds)) < len(seeds):
            raise UsageError(f"'{label}' has a seed twice: found the seeds {seeds}.")
        if seeds != wanted:
            raise UsageError(
                f"Every learner needs the same seeds: '{next(iter(groups))}' has {wanted}, "
                f"'{label}' has {seeds}."
            )
    return groups
