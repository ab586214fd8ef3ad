"""A run's episodes at a glance, phase by phase; whole episodes are not kept in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from lopd_gym.episode import Episode, read_episodes
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.report.text import check_kind
from lopd_gym.stats import Interval, mean_interval, wilson_interval

_ORDER = ("nothing", "base", "bank", "train", "step", "student", "oracle")
_COUNTED = ("turns", "calls", "parse_errors", "sampled_tokens")


@dataclass(frozen=True, slots=True)
class Glance:
    """One episode in few words; ``number`` is its place in the phase, from 0."""

    number: int
    task_id: str
    group: str
    score: float | None
    success: bool
    ending: str
    failing: tuple[str, ...]
    turns: int
    calls: int
    parse_errors: int
    sampled_tokens: int

    @classmethod
    def of(cls, number: int, episode: Episode) -> Glance:
        """Look at an episode."""
        outcome = episode.outcome
        return cls(
            number=number,
            task_id=episode.task_id,
            group=episode.group,
            score=outcome.score,
            success=outcome.success,
            ending=outcome.termination.value,
            failing=tuple(check_kind(c.name) for c in outcome.checks if not c.passed),
            turns=episode.turns,
            calls=len(episode.actions),
            parse_errors=episode.parse_errors,
            sampled_tokens=episode.sampled_tokens,
        )


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """All episodes of one phase; those that infrastructure broke are in no average."""

    name: str
    episodes: tuple[Glance, ...]

    @property
    def played(self) -> list[Glance]:
        """The episodes that have a score."""
        return [e for e in self.episodes if e.score is not None]

    @property
    def failed(self) -> int:
        """How many infrastructure broke."""
        return len(self.episodes) - len(self.played)

    @property
    def success(self) -> Interval | None:
        """Rate of success with its 95 % interval over episodes; None without any."""
        won = [e.success for e in self.played]
        return wilson_interval(sum(won), len(won)) if won else None

    @property
    def score(self) -> Interval | None:
        """Mean score with its 95 % interval over episodes; None without any."""
        scores = [e.score for e in self.played if e.score is not None]
        return mean_interval(np.array(scores)) if scores else None

    @property
    def endings(self) -> Counter[str]:
        """How often each reason ended an episode."""
        return Counter(e.ending for e in self.episodes)

    @property
    def failing_checks(self) -> Counter[str]:
        """In how many episodes each kind of check failed."""
        return Counter(kind for e in self.played for kind in set(e.failing))

    @property
    def means(self) -> dict[str, float]:
        """Means over the played episodes, 0 without any."""
        count = max(1, len(self.played))
        return {name: sum(getattr(e, name) for e in self.played) / count for name in _COUNTED}

    def worst(self) -> Glance:
        """Return the episode with the lowest score, the first of equals.

        Raises:
            UsageError: No episode has a score.
        """
        if not self.played:
            raise UsageError(f"No episode of phase '{self.name}' has a score.")
        return min(self.played, key=lambda e: e.score or 0.0)


def read_phases(run: Path) -> dict[str, PhaseResult]:
    """Read the phases of a run, finished or not, in the order in which a reader wants them.

    Raises:
        UsageError: There is no episode yet.
    """
    paths = sorted((run / "episodes").glob("*.jsonl"), key=lambda path: _place(path.stem))
    if not paths:
        raise UsageError(f"{run} holds no episodes yet.")
    return {path.stem: read_phase(path) for path in paths}


def read_phase(path: Path) -> PhaseResult:
    """Read the episodes of one phase, given its file."""
    glances = (Glance.of(number, e) for number, e in enumerate(read_episodes(path)))
    return PhaseResult(path.stem, tuple(glances))


def main_phase(phases: dict[str, PhaseResult], name: str | None) -> PhaseResult:
    """Return the phase with a name; without one the student's, or the last there is.

    Raises:
        UsageError: There is no such phase.
    """
    if name is None:
        name = "student-sampled" if "student-sampled" in phases else list(phases)[-1]
    if name not in phases:
        raise unknown_name("phase of this run", name, phases)
    return phases[name]


def read_chosen(run: Path, phase: str, numbers: Iterable[int]) -> dict[int, Episode]:
    """Read some episodes of a phase by their numbers, from 0.

    Raises:
        UsageError: The phase has no episode of such a number.
    """
    wanted = set(numbers)
    episodes = enumerate(read_episodes(run / "episodes" / f"{phase}.jsonl"))
    found = {n: episode for n, episode in islice(episodes, max(wanted) + 1) if n in wanted}
    if wanted - found.keys():
        missing = min(wanted - found.keys())
        raise UsageError(f"Phase '{phase}' has no episode {missing}: they are numbered from 0.")
    return found


def _place(name: str) -> tuple[int, str]:
    kind = name.split("-")[0]
    return (_ORDER.index(kind) if kind in _ORDER else len(_ORDER), name)
