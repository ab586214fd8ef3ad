"""Which episodes a page shows: a few of each kind that a reader asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from lopd_gym.report.phases import Glance, PhaseResult

_FEW = 4
_MOST = 30


@dataclass(frozen=True, slots=True)
class Chosen:
    """An episode and the reasons to show it."""

    phase: str
    number: int
    tags: tuple[str, ...]


def choose(phases: Mapping[str, PhaseResult]) -> list[Chosen]:
    """Choose at most 30 episodes, the most telling first; the same ones every time."""
    reasons: dict[tuple[str, int], list[str]] = {}
    for tag, phase, number in _reasons(phases):
        reasons.setdefault((phase, number), []).append(tag)
    chosen = (Chosen(phase, number, tuple(tags)) for (phase, number), tags in reasons.items())
    return list(islice(chosen, _MOST))


def final_phase(phases: Mapping[str, PhaseResult]) -> PhaseResult:
    """Return the student's last evaluation, or the last phase where there is none."""
    held = [name for name, phase in phases.items() if phase.episodes] or list(phases)
    students = [name for name in held if name.startswith(("step-", "student-"))]
    sampled = [name for name in students if name.endswith("-sampled")]
    return phases[(sampled or students or held)[-1]]


def _reasons(phases: Mapping[str, PhaseResult]) -> Iterator[tuple[str, str, int]]:
    """Yield (tag, phase, number)."""
    final, base = final_phase(phases), phases.get("base-sampled")
    missed = sorted((e for e in final.played if not e.success), key=lambda e: e.score or 0.0)
    yield from _tagged("worst", final, missed[:_FEW])
    if base is not None and base is not final:
        before = {e.task_id: e for e in base.played}
        known = [(before[e.task_id], e) for e in final.played if e.task_id in before]
        yield from _pairs("lost", base, final, (p for p in known if p[0].success > p[1].success))
        yield from _pairs("gained", base, final, (p for p in known if p[0].success < p[1].success))
    yield from _tagged("solved", final, islice((e for e in final.played if e.success), _FEW))
    train = phases.get("train")
    for phase in dict.fromkeys(p for p in (final, base, train) if p is not None):
        endings = {e.ending: e for e in reversed(phase.episodes) if e.ending != "submitted"}
        yield from _tagged("ended early", phase, endings.values())
    if train is not None:
        yield from _tagged("training", train, train.episodes[-_FEW:])


def _pairs(
    tag: str, base: PhaseResult, final: PhaseResult, pairs: Iterable[tuple[Glance, Glance]]
) -> Iterator[tuple[str, str, int]]:
    for before, after in islice(pairs, _FEW):
        yield tag, final.name, after.number
        yield f"{tag}: before", base.name, before.number


def _tagged(
    tag: str, phase: PhaseResult, episodes: Iterable[Glance]
) -> Iterator[tuple[str, str, int]]:
    for episode in episodes:
        yield tag, phase.name, episode.number
