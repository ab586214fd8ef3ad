"""Learners whose teacher is shown the task's own solution, from the bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import Field

from lopd_gym.episode import Episode
from lopd_gym.learner import Needs
from lopd_learners.distillation import ContextDistillation, DistillationConfig, shown


class GoldConfig(DistillationConfig):
    """Options of distillation from known solutions.

    Attributes:
        bank_rollouts: Episodes of the base policy whose successes are the solutions.
    """

    bank_rollouts: int = Field(320, ge=0)


Gold = dict[tuple[str, str], tuple[float, Mapping[str, str]]]
"""By environment and task: the score of its best known success, and what is shown of it."""


class GoldDistillation(ContextDistillation):
    """Distillation whose context is the best success that the bank holds; of equals the first."""

    @classmethod
    def needs(cls, config: Any) -> Needs:
        """A bank, and tasks that it holds a solution of."""
        return Needs(bank=True, bank_rollouts=config.bank_rollouts, solved_tasks=True)

    def contexts(self, episodes: Sequence[Episode]) -> list[Mapping[str, str] | None]:
        """Show the task's own solution."""
        found = [self._gold.get((e.env, e.task_id)) for e in episodes]
        return [None if gold is None else gold[1] for gold in found]

    @cached_property
    def _gold(self) -> Gold:
        """Read when it is first needed: the bank is filled after the learner is made."""
        assert self.context.bank is not None
        best: Gold = {}
        for x in self.context.bank:
            key = (x.env, x.task_id)
            if key not in best or x.score > best[key][0]:
                best[key] = (x.score, shown(x.instruction, x.trace))
        return best
