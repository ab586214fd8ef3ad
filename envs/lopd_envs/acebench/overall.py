"""The accuracies that ACEBench publishes, from the episodes of one evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from lopd_envs.acebench.corpus import CATEGORIES, Corpus
from lopd_envs.acebench.splits import ALL, PARTS
from lopd_gym.episode import Episode

WEIGHTS = {"normal": 0.578, "special": 0.2676, "agent": 0.1545}
"""Of the parts in the overall accuracy, as published: like the square roots of their sizes."""

VERDICTS = ("official", "strict")


def published(corpus: Corpus, episodes: Sequence[Episode]) -> dict[str, dict[str, float]]:
    """Return rows of accuracies: categories, then parts, then ``overall``.

    A dialogue counts once, and passes if all its rows do; ``process`` of dialogues is the mean
    share of rows that pass. ``tasks`` says how many rows were scored. A part, and ``overall``, is
    there only if every row that it needs was scored: nothing that is missing counts as anything.
    """
    scored = {e.task_id: e.outcome.measures for e in episodes if not e.failed}
    figures: dict[str, dict[str, float]] = {}
    complete = set()
    for category, rows in corpus.rows.items():
        units: dict[str, list[Mapping[str, float]]] = {}
        for row in rows:
            if scored.get(row.id):
                units.setdefault(row.dialogue, []).append(scored[row.id])
        if units:
            figures[category] = _accuracies(list(units.values()))
        if rows and all(row.id in scored for row in rows):
            complete.add(category)
    if not complete.issuperset(CATEGORIES):
        return figures | _parts(figures, complete)
    parts = _parts(figures, complete)
    overall = {v: sum(WEIGHTS[part] * parts[part][v] for part in WEIGHTS) for v in VERDICTS}
    tasks = sum(parts[part]["tasks"] for part in WEIGHTS)
    return figures | parts | {"overall": _rounded(overall) | {"tasks": tasks}}


def _accuracies(units: Sequence[Sequence[Mapping[str, float]]]) -> dict[str, float]:
    found = {v: fmean(float(all(row[v] for row in unit)) for unit in units) for v in VERDICTS}
    rows = [row for unit in units for row in unit]
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in VERDICTS:
            found[name] = fmean(row[name] for row in rows if name in row)
    if len(rows) > len(units):
        found["process"] = fmean(fmean(row["official"] for row in unit) for unit in units)
    return _rounded(found) | {"tasks": len(rows)}


def _parts(
    figures: Mapping[str, Mapping[str, float]], complete: set[str]
) -> dict[str, dict[str, float]]:
    parts = {}
    for part, categories in PARTS.items():
        if part != ALL and complete.issuperset(categories):
            own = [figures[category] for category in categories]
            means = {v: fmean(category[v] for category in own) for v in VERDICTS}
            tasks = sum(category["tasks"] for category in own)
            parts[part] = _rounded(means) | {"tasks": tasks}
    return parts


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Round to three digits, as upstream does on the way."""
    return {name: round(value, 3) for name, value in values.items()}
