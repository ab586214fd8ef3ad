"""What OPSD, SDFT and SDPO share: a teacher that is shown text which the student is not.

Each says which text an episode's teacher sees, and by which divergence the student follows it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from lopd_gym.bank.trace import item_text
from lopd_gym.episode import Episode
from lopd_gym.learner import Learner, LearnerContext, Metrics, TokenView
from lopd_learners.averaged import AveragedTeacher
from lopd_learners.config import Positive, Share, TrainingConfig
from lopd_learners.forward import (
    TokenRow,
    base_precision,
    check_head,
    supervised_states,
    target_log_probs,
)
from lopd_learners.optim import StudentOptimiser
from lopd_learners.policy_gradient import sampler_weights
from lopd_learners.rows import (
    Place,
    privileged_rows,
    recorded_log_probs,
    sampled_log_probs,
    temperature_of,
)

TINY_TEMPLATE = "Example:\n{item}\nYour task:\n{message}"
"""The only way in which the shipped tiny policy has learned to read an example."""


class DistillationConfig(TrainingConfig):
    """Options of self-distillation from text.

    Attributes:
        template: What the teacher's message becomes: ``{message}`` is its own content, ``{trace}``
            the privileged trace, ``{item}`` the trace below its task's text.
        place: Which message it is, ``system`` or ``user``.
        teacher: The frozen ``base``, or an average (``ema``) of the student.
        ema_rate: How far the average moves towards the student after each step.
        skip_first: How many of an episode's first sampled tokens are left out.
        mismatch_cap: Largest weight of a token whose probability differs from the sampler's;
            None for no weights.
    """

    template: str
    place: Place = "user"
    teacher: Literal["base", "ema"] = "base"
    ema_rate: Share = 0.05
    skip_first: int = Field(0, ge=0)
    mismatch_cap: Positive | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One episode, as the student and as its teacher see it."""

    episode: Episode
    student: TokenRow
    teacher: TokenRow

    @property
    def tokens(self) -> int:
        """Supervised tokens."""
        return int(self.student.supervised.sum())


def shown(instruction: str, trace: str) -> dict[str, str]:
    """Return what a template's names stand for."""
    return {"trace": trace, "item": item_text(instruction, trace)}


class ContextDistillation(Learner):
    """Steps the student towards a teacher that sees more, on what the student sampled."""

    config: DistillationConfig

    def __init__(self, config: DistillationConfig, context: LearnerContext) -> None:
        super().__init__(config, context)
        self._backbone = context.backbone
        check_head(self._backbone.base)
        self._average = (
            AveragedTeacher(self._backbone, config.ema_rate) if config.teacher == "ema" else None
        )
        self._optimiser = StudentOptimiser(self._backbone, config)

    @abstractmethod
    def contexts(self, episodes: Sequence[Episode]) -> list[Mapping[str, str] | None]:
        """Say what each episode's teacher is shown; None leaves the episode out."""

    def template(self, values: Mapping[str, str]) -> str:
        """Return what the message becomes where these values are shown."""
        return self.config.template

    @abstractmethod
    def divergence(
        self, states: Tensor, teacher: Any, teacher_states: Tensor, sampled: Tensor
    ) -> Tensor:
        """Return the loss of each supervised token, [S].

        Args:
            states: The student's hidden states, [S, d].
            teacher: The model whose head is applied to its states.
            teacher_states: The teacher's hidden states, [S, d], without gradient.
            sampled: What the student sampled, [S].
        """

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Take one step on the mean over all supervised tokens."""
        episodes = [e for e in episodes if not e.failed]
        samples = self._samples(episodes)
        share = len(samples) / max(1, len(episodes))
        metrics = {"context_share": share, "trained_episodes": float(len(samples))}
        if not samples:
            return {**metrics, "skipped": 1.0}
        total = sum(x.tokens for x in samples)

        def loss_of(group: list[int]) -> tuple[Tensor, Metrics]:
            return self._loss([samples[i] for i in group]) / total, {}

        stepped = self._optimiser.minimise([len(x.teacher.ids) for x in samples], loss_of)
        if self._average is not None and not stepped["skipped"]:
            self._average.follow()
        return {**metrics, **stepped}

    def token_view(self, episode: Episode, step: Sequence[Episode]) -> TokenView | None:
        """Compare teacher and student where the episode's teacher is shown something."""
        number = next(n for n, other in enumerate(step) if other is episode)
        values = self.contexts(step)[number]
        if values is None:
            return None
        sample = self._sample(episode, values)
        if not sample.tokens:
            return None
        with base_precision(self._backbone):
            return TokenView(
                positions=np.flatnonzero(sample.student.supervised),
                teacher=target_log_probs(self._teacher, sample.teacher),
                student=target_log_probs(self._backbone.student, sample.student),
                context="\n\n".join(values[n] for n in ("item", "feedback") if n in values),
            )

    @property
    def _teacher(self) -> Any:
        return self._backbone.base if self._average is None else self._average.model

    def _samples(self, episodes: Sequence[Episode]) -> list[Sample]:
        pairs = zip(episodes, self.contexts(episodes), strict=True)
        samples = [self._sample(e, values) for e, values in pairs if values is not None]
        return [sample for sample in samples if sample.tokens]

    def _sample(self, episode: Episode, values: Mapping[str, str]) -> Sample:
        config, template = self.config, self.template(values)
        rows = privileged_rows(
            self._backbone, episode, template, config.place, values, config.max_tokens
        )
        return Sample(episode, *(_without_first(row, config.skip_first) for row in rows))

    def _loss(self, part: Sequence[Sample]) -> Tensor:
        """Sum the weighted loss of the supervised tokens of some samples."""
        student, again = self._backbone.student, self.config.gradient_checkpointing
        teacher, rows = self._teacher, [x.student for x in part]
        with base_precision(self._backbone):
            with torch.no_grad():
                teacher_states = supervised_states(teacher, [x.teacher for x in part])
            states = supervised_states(student, rows, recompute=again)
            sampled = torch.cat([row.targets for row in rows]).to(states.device)
            values = self.divergence(states, teacher, teacher_states, sampled)
            weights = self._weights(part, states.detach())
        return (weights * values).sum()

    def _weights(self, part: Sequence[Sample], states: Tensor) -> Tensor:
        cap, rows = self.config.mismatch_cap, [x.student for x in part]
        if cap is None:
            return torch.ones(len(states), device=states.device)
        temperature = temperature_of(part[0].episode)
        with torch.no_grad():
            p_log = sampled_log_probs(self._backbone.student, states, rows, temperature)
        recorded = [recorded_log_probs(x.episode, x.student) for x in part]
        lengths = [x.tokens for x in part]
        return sampler_weights(p_log, torch.cat(recorded).to(p_log), lengths, "token", cap)

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser and the averaged teacher."""
        average = None if self._average is None else self._average.state_dict()
        return {"optimiser": self._optimiser.state_dict(), "average": average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._optimiser.load_state_dict(state["optimiser"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])


def _without_first(row: TokenRow, count: int) -> TokenRow:
    """Supervise all but the first sampled tokens of a row."""
    return replace(row, supervised=row.supervised & (row.supervised.cumsum() > count))
