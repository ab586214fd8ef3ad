"""SDPO: the student follows an average of itself that is shown a successful sibling.

Where it is asked for, the teacher is also told which checks the student's own attempt missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from lopd_gym.bank.trace import write_trace
from lopd_gym.episode import Episode
from lopd_gym.learner import Metrics, Needs
from lopd_learners.config import Positive, Share
from lopd_learners.distillation import (
    TINY_TEMPLATE,
    ContextDistillation,
    DistillationConfig,
    shown,
)
from lopd_learners.forward import log_probs_at, top_support
from lopd_learners.losses import jensen_shannon, with_tail

TEMPLATE = (
    "{message}\n\nCorrect solution:\n{trace}\n\nNow correctly solve the original task, carrying "
    "out every step yourself."
)

FEEDBACK_TEMPLATE = (
    "{message}\n\nSolve it correctly, carrying out every step yourself. This is what was wrong "
    "with an earlier attempt:\n{feedback}"
)


class SDPOConfig(DistillationConfig):
    """Options of SDPO; the defaults are those of the LOPD paper's baseline.

    Attributes:
        group_size: Episodes of each task in a step.
        support: The student's most likely tokens on which the two are compared, beside a tail.
        divergence_weight: 0 for the forward KL, 1 for the reverse KL, between them the generalised
            Jensen-Shannon divergence.
        threshold: Score from which a sibling counts as a solution.
        own_success: Whether a success may be shown to its own teacher.
        feedback: Whether a teacher is told which checks its unsuccessful episode missed: never
            (``off``), where there is no solution to show (``alone``), or ``beside`` one too.
        feedback_template: What the message becomes then, before a solution is put to it:
            ``{feedback}`` lists those checks.
    """

    template: str = TEMPLATE
    teacher: Literal["base", "ema"] = "ema"
    mismatch_cap: Positive | None = 2.0
    group_size: int = Field(4, ge=2)
    support: int = Field(20, ge=1)
    divergence_weight: Share = 1.0
    threshold: float = Field(1.0, gt=0, le=1)
    own_success: bool = False
    feedback: Literal["off", "alone", "beside"] = "off"
    feedback_template: str = FEEDBACK_TEMPLATE


class SDPO(ContextDistillation):
    """Self-distillation policy optimisation, with whole episodes of siblings as context."""

    name: ClassVar[str] = "sdpo"
    summary: ClassVar[str] = "An averaged self-teacher, shown a sibling's success, supervises."
    paper: ClassVar[str] = "Self-Distillation Policy Optimization, arXiv 2601.20802"
    config_type: ClassVar[type[SDPOConfig]] = SDPOConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tiny": {"template": TINY_TEMPLATE, "lr": 1e-3, "gradient_checkpointing": False},
    }
    config: SDPOConfig

    @classmethod
    def needs(cls, config: Any) -> Needs:
        """A group of episodes for each task."""
        return Needs(episodes_per_task=config.group_size)

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Take one step; says in which share of groups there was a success to show."""
        solved = {e.task_id for e in episodes if self._solved(e)}
        groups = {e.task_id for e in episodes}
        share = len(solved) / max(1, len(groups))
        return {**super().update(episodes), "solved_groups": share}

    def contexts(self, episodes: Sequence[Episode]) -> list[Mapping[str, str] | None]:
        """Show the first successful sibling, feedback on the episode itself, or both."""
        return [self._context(episode, episodes) or None for episode in episodes]

    def template(self, values: Mapping[str, str]) -> str:
        """Put the feedback to the message, and a solution to what comes of it."""
        config = self.config
        whole = config.template if "trace" in values else "{message}"
        inner = config.feedback_template if "feedback" in values else "{message}"
        return whole.replace("{message}", inner)

    def _context(self, episode: Episode, episodes: Sequence[Episode]) -> dict[str, str]:
        values = self._sibling(episode, episodes)
        if self.config.feedback == "beside" or (self.config.feedback == "alone" and not values):
            values |= self._feedback(episode)
        return values

    def _feedback(self, episode: Episode) -> dict[str, str]:
        missed = [check for check in episode.outcome.checks if not check.passed]
        if self._solved(episode) or not missed:
            return {}
        lines = [f"- {check.name}" + (f": {check.error}" * bool(check.error)) for check in missed]
        return {"feedback": "\n".join(lines)}

    def _sibling(self, episode: Episode, episodes: Sequence[Episode]) -> dict[str, str]:
        for other in episodes:
            mine = other is episode and not self.config.own_success
            if other.task_id == episode.task_id and self._solved(other) and not mine:
                return shown(other.instruction, write_trace(other.actions))
        return {}

    def _solved(self, episode: Episode) -> bool:
        return (episode.outcome.score or 0.0) >= self.config.threshold and bool(episode.actions)

    def divergence(
        self, states: Tensor, teacher: Any, teacher_states: Tensor, sampled: Tensor
    ) -> Tensor:
        """Compare the two on the student's support and a tail, [S]."""
        student = self._backbone.student
        ids = top_support(student, states.detach(), sampled, self.config.support).ids
        p_log = with_tail(log_probs_at(student, states, ids))
        with torch.no_grad():
            q_log = with_tail(log_probs_at(teacher, teacher_states, ids))
        return jensen_shannon(p_log, q_log, self.config.divergence_weight)
