"""GRPO: every sampled token of an episode is pushed by how much better it went than its siblings.

The log-probabilities are those at the sampling temperature, as in TRL and verl, because that is
the policy that played.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.learner import Learner, LearnerContext, Metrics, Needs
from lopd_learners.forward import base_precision, check_head, supervised_states
from lopd_learners.grpo.config import PRESETS, GRPOConfig
from lopd_learners.grpo.sample import (
    Sample,
    make_samples,
    split,
    spread,
)
from lopd_learners.losses import sampled_reverse_kl
from lopd_learners.optim import StudentOptimiser
from lopd_learners.policy_gradient import clipped_surrogate, ratio, sampler_weights
from lopd_learners.rows import sampled_log_probs, student_row, temperature_of

_MOST_BATCHES = 10
"""Steps that dynamic sampling may wait for groups with a spread (DAPO)."""


class GRPO(Learner):
    """Group relative policy optimisation."""

    name: ClassVar[str] = "grpo"
    summary: ClassVar[str] = "Policy gradient with advantages relative to siblings of one task."
    paper: ClassVar[str] = "DeepSeekMath, arXiv 2402.03300; Dr. GRPO 2503.20783; DAPO 2503.14476"
    config_type: ClassVar[type[GRPOConfig]] = GRPOConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    config: GRPOConfig

    def __init__(self, config: GRPOConfig, context: LearnerContext) -> None:
        super().__init__(config, context)
        self._backbone = context.backbone
        check_head(self._backbone.base)
        self._optimiser = StudentOptimiser(self._backbone, config)
        self._held: list[Sample] = []  # what dynamic sampling keeps for later
        self._waited = 0

    @classmethod
    def needs(cls, config: Any) -> Needs:
        """A group of episodes for each task."""
        return Needs(episodes_per_task=config.group_size)

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Take one policy-gradient step (``epochs`` of them) on a step's episodes."""
        samples = self._samples(episodes)
        metrics = self._describe(samples)
        if self.config.dynamic_sampling:
            samples = self._wait(samples)
        elif self.config.drop_zero_spread:
            samples = _useful(samples)
        if not _useful(samples):
            return {**metrics, "skipped": 1.0, "trained_episodes": 0.0}
        return {**metrics, **self._optimise(samples), "trained_episodes": float(len(samples))}

    def _samples(self, episodes: Sequence[Episode]) -> list[Sample]:
        """Make a step's samples; a learner built on this one adds a teacher to them."""
        return make_samples(episodes, self.config)

    def _describe(self, samples: Sequence[Sample]) -> Metrics:
        """Say how many groups there are, and which share of them has scores without a spread."""
        groups, useful = {x.group for x in samples}, {x.group for x in samples if x.advantage}
        return {
            "groups": float(len(groups)),
            "zero_spread_groups": 1 - len(useful) / max(1, len(groups)),
        }

    def _optimise(self, samples: Sequence[Sample]) -> Metrics:
        """Step on the mean loss of samples; the first pass notes their old log-probabilities."""

        def loss_of(group: list[int]) -> tuple[Tensor, Metrics]:
            return self._share([samples[i] for i in group], samples)

        lengths = [len(x.row.ids) for x in samples]
        return self._optimiser.minimise(lengths, loss_of, self.config.epochs)

    def _share(self, part: Sequence[Sample], every: Sequence[Sample]) -> tuple[Tensor, Metrics]:
        """Return one micro-batch's share of the loss, and of other numbers."""
        config, student, rows = self.config, self._backbone.student, [x.row for x in part]
        with base_precision(self._backbone):
            states = supervised_states(student, rows, recompute=config.gradient_checkpointing)
            p_log = sampled_log_probs(student, states, rows, temperature_of(part[0].episode))
        now = split(p_log.detach(), part)
        old_log = torch.cat([x.old(mine) for x, mine in zip(part, now, strict=True)])
        recorded = torch.cat([x.recorded for x in part]).to(old_log)
        ratios = ratio(p_log, old_log)
        advantages = spread([x.advantage for x in part], part, ratios.device)
        surrogate = clipped_surrogate(
            ratios, advantages, config.clip_low, config.clip_high, config.dual_clip
        )
        lengths = [x.tokens for x in part]
        weights = sampler_weights(old_log, recorded, lengths, config.mismatch, config.mismatch_cap)
        kl = self._kl_to_base(part, p_log)
        loss = weights * surrogate + config.kl * kl + self._distillation(part, p_log, ratios)
        tokens = sum(x.tokens for x in every)
        above = (advantages > 0) & (ratios > 1 + config.clip_high)
        below = (advantages < 0) & (ratios < 1 - config.clip_low)
        return self._reduced(loss, part, every), {
            "kl": kl.sum().item() / tokens,
            "clipped": (above | below).sum().item() / tokens,
            "mismatch": (old_log - recorded).sum().item() / tokens,
        }

    def _distillation(self, part: Sequence[Sample], p_log: Tensor, ratios: Tensor) -> Tensor:
        """Return what a learner built on this one adds to each token's loss, [S]."""
        return torch.zeros_like(p_log)

    def _kl_to_base(self, part: Sequence[Sample], p_log: Tensor) -> Tensor:
        """Estimate KL(student || base) at each sampled token (k3), [S]; 0 where not wanted."""
        if not self.config.kl:
            return torch.zeros_like(p_log)
        base, rows = self._backbone.base, [x.row for x in part]
        with torch.no_grad():
            states = supervised_states(base, rows)
            q_log = sampled_log_probs(base, states, rows, temperature_of(part[0].episode))
        return sampled_reverse_kl(p_log, q_log, "k3")

    def _reduced(self, loss: Tensor, part: Sequence[Sample], every: Sequence[Sample]) -> Tensor:
        """Sum a micro-batch's token losses [S], each with its weight in the whole step."""
        if self.config.reduction == "token":
            return loss.sum() / sum(x.tokens for x in every)
        if self.config.reduction == "constant":
            return loss.sum() / (self.config.constant * len(every))
        lengths = spread([x.tokens for x in part], part, loss.device)
        return (loss / lengths).sum() / len(every)

    def _wait(self, samples: Sequence[Sample]) -> list[Sample]:
        """Hold back groups that teach until there are as many episodes as a step has."""
        self._held += _useful(samples)
        self._waited += 1
        if len(self._held) < len(samples) and self._waited < _MOST_BATCHES:
            return []
        ready, self._held, self._waited = self._held, [], 0
        return ready

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser, and what dynamic sampling holds back."""
        return {
            "optimiser": self._optimiser.state_dict(),
            "held": [
                (json.dumps(x.episode.to_json()), x.advantage, x.teacher_log) for x in self._held
            ],
            "waited": self._waited,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._optimiser.load_state_dict(state["optimiser"])
        self._held = []
        for plain, advantage, teacher_log in state["held"]:
            episode = Episode.from_json(json.loads(plain))
            row = student_row(episode, self.config.max_tokens)
            self._held.append(Sample(episode, row, advantage, teacher_log=teacher_log))
        self._waited = state["waited"]


def _useful(samples: Sequence[Sample]) -> list[Sample]:
    """Keep the groups in which something adds to the gradient: a spread of scores, or a teacher."""
    groups = {x.group for x in samples if x.advantage or x.teacher_log is not None}
    return [x for x in samples if x.group in groups]
