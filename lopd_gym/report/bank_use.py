"""What a run's bank holds, and what a search in it finds for the tasks that were trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lopd_gym.bank import Bank
from lopd_gym.bank.bank import GroupStats
from lopd_gym.bank.store import DATABASE_FILE
from lopd_gym.episode import Episode, read_episodes

_MAX_TASKS = 500
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Found:
    """An experience, and for how many tasks it is the nearest."""

    text: str
    group: str
    tasks: int


@dataclass(frozen=True, slots=True)
class BankUse:
    """A bank's content, and the nearest experience of each task (the task's own left out).

    ``same_group`` is the share of tasks whose nearest experience is of their own group,
    ``similarity`` the mean cosine similarity to it, ``used`` how many experiences are the nearest
    of some task.
    """

    experiences: int
    embedder: str
    groups: Sequence[GroupStats]
    tasks: int
    same_group: float
    similarity: float
    used: int
    most_found: Sequence[Found]


def bank_use(run: Path) -> BankUse | None:
    """Look into a run's bank; None where it holds nothing."""
    if not (run / "bank" / DATABASE_FILE).exists():
        return None
    with Bank.open(run / "bank", create=False) as bank:
        stats = bank.stats()
        if not stats.experiences:
            return None
        tasks = _training_tasks(run)
        hits = [
            (task, hit)
            for task in tasks
            for hit in bank.search(task.instruction, 1, env=task.env, exclude_task=task.task_id)
        ]
    counted = Counter(hit.experience for _, hit in hits)
    count = max(1, len(hits))
    return BankUse(
        experiences=stats.experiences,
        embedder=stats.embedder,
        groups=stats.groups,
        tasks=len(hits),
        same_group=sum(task.group == hit.experience.group for task, hit in hits) / count,
        similarity=sum(hit.similarity for _, hit in hits) / count,
        used=len(counted),
        most_found=[Found(x.text, x.group, n) for x, n in counted.most_common(_SHOWN)],
    )


def _training_tasks(run: Path) -> list[Episode]:
    """One episode of each task, of the first that training played."""
    found: dict[str, Episode] = {}
    for episode in read_episodes(run / "episodes" / "train.jsonl"):
        found.setdefault(episode.task_id, episode)
        if len(found) == _MAX_TASKS:
            break
    return list(found.values())
