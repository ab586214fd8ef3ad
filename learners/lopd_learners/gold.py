"""Privileged traces of solved tasks, for learners whose teacher is shown a task's own solution."""

from __future__ import annotations

from collections.abc import Mapping

from lopd_gym.bank import Bank
from lopd_gym.episode import Episode
from lopd_learners.distillation import shown


class GoldTraces:
    """The best own success of each task that a bank holds; of equals the first."""

    def __init__(self, bank: Bank) -> None:
        self._best: dict[str, tuple[float, Mapping[str, str]]] = {}
        for x in bank:
            if x.task_id not in self._best or x.score > self._best[x.task_id][0]:
                self._best[x.task_id] = (x.score, shown(x.instruction, x.trace))

    def of(self, episode: Episode) -> Mapping[str, str] | None:
        """Return what an episode's teacher is shown, None where its task was never solved."""
        found = self._best.get(episode.task_id)
        return None if found is None else found[1]
