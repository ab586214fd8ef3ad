"""The LOPD learner: one training step, in the order of the paper's algorithm.

1. Retrieve experiences for each episode's task.
2. Teacher, without gradient: latents, then the support of its most likely tokens.
3. Student: one optimiser step on the reverse KL to the teacher, over every sampled token of every
   episode, whether it succeeded or not.
4. Composer: one optimiser step on KL, privileged margin and anchor, with the student's numbers
   of step 3 held fixed; then the dual variable.

Both updates use quantities from before either of them. A step of the student whose gradient is not
finite is skipped as a whole; one of the composer is skipped with the dual variable's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from lopd_gym.episode import Episode, Sampling
from lopd_gym.learner import Learner, LearnerContext, Metrics, Needs, Progress, TokenView
from lopd_gym.policy.base import Policy
from lopd_learners.forward import (
    base_precision,
    check_head,
    log_probs_at,
    supervised_states,
    target_log_probs,
    top_support,
)
from lopd_learners.lopd.cold_start import fit_composer
from lopd_learners.lopd.composer import Composer, make_composer
from lopd_learners.lopd.config import PRESETS, LOPDConfig
from lopd_learners.lopd.example import (
    Example,
    episode_means,
    in_parts,
    latents_of,
    make_examples,
    sampled_of,
    split,
    teacher_states,
)
from lopd_learners.lopd.memory import Retriever
from lopd_learners.lopd.report import describe, leads
from lopd_learners.lopd.teacher import TeacherPolicy
from lopd_learners.losses import composer_loss, dual_step, reverse_kl, with_tail
from lopd_learners.optim import clipped_step


class LOPD(Learner):
    """Latent on-policy self-distillation."""

    name: ClassVar[str] = "lopd"
    summary: ClassVar[str] = (
        "A frozen self-teacher, shown latents of retrieved experiences, supervises every token."
    )
    paper: ClassVar[str] = "Latent On-Policy Self-Distillation, arXiv 2608.13040"
    config_type: ClassVar[type[LOPDConfig]] = LOPDConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    config: LOPDConfig

    def __init__(self, config: LOPDConfig, context: LearnerContext) -> None:
        super().__init__(config, context)
        if context.bank is None:
            raise ValueError("LOPD needs an experience bank.")
        check_head(context.backbone.base)
        self._backbone = context.backbone
        self.retriever = Retriever(context.bank, config)
        self.composer: Composer = make_composer(config, context.backbone, context.seed)
        self._cold: Composer = make_composer(config, context.backbone, context.seed)
        self.beta = config.beta
        self._student_optimiser = torch.optim.AdamW(
            context.backbone.student_parameters(),
            lr=config.student_lr,
            weight_decay=config.weight_decay,
        )
        self._composer_optimiser = torch.optim.AdamW(
            self.composer.parameters(), lr=config.composer_lr, weight_decay=config.weight_decay
        )

    @classmethod
    def needs(cls, config: Any) -> Needs:
        """One episode for each task, and a bank."""
        return Needs(
            episodes_per_task=1,
            bank=True,
            bank_rollouts=config.bank_rollouts,
            growing_bank=config.grow_bank,
        )

    def prepare(self, successes: Sequence[Episode], progress: Progress) -> None:
        """Fit the composer to the base policy's own successes, and keep it as the anchor."""
        examples = make_examples(successes, self._backbone, self.retriever, self.config)
        seed = self.context.seed
        fit_composer(self.composer, self._backbone, examples, self.config, seed, progress)
        self._cold.load_state_dict(self.composer.state_dict())

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Update student, composer and dual variable from one step's episodes."""
        examples = make_examples(episodes, self._backbone, self.retriever, self.config)
        if not examples:
            return {"skipped": 1.0, "beta": self.beta, "trained_episodes": 0.0}
        self._teach(examples)
        metrics = self._update_student(examples)
        metrics |= describe(examples, self.config)
        if not metrics["skipped"] and self.config.composer == "train":
            metrics |= self._update_composer(examples, metrics["delta"])
        return {**metrics, "beta": self.beta}

    @torch.no_grad()
    def _teach(self, examples: Sequence[Example]) -> None:
        """Note the teacher's support, and its log-probabilities there and of sampled tokens."""
        base, config = self._backbone.base, self.config
        for part in in_parts(examples, config):
            states = teacher_states(self._backbone, part, latents_of(self.composer, part), config)
            found = top_support(base, states, sampled_of(part, states.device), config.support)
            pieces = (split(t, part) for t in (found.ids, found.log_probs, found.entropy))
            for x, ids, log_probs, entropy in zip(part, *pieces, strict=True):
                x.support, x.q_log, x.entropy = ids, log_probs, entropy

    def _update_student(self, examples: Sequence[Example]) -> Metrics:
        """One step on the mean over all sampled tokens of KL(student || teacher)."""
        student, config = self._backbone.student, self.config
        total, loss = sum(x.tokens for x in examples), 0.0
        for part in in_parts(examples, config):
            rows = [x.student for x in part]
            with base_precision(self._backbone):
                states = supervised_states(student, rows, recompute=config.gradient_checkpointing)
                p_log = log_probs_at(student, states, torch.cat([x.wanted for x in part]))
            share = _kl(p_log, torch.cat([x.q_log for x in part])).sum() / total
            share.backward()  # type: ignore[no-untyped-call]
            loss += share.item()
            for x, values in zip(part, split(p_log.detach(), part), strict=True):
                x.p_log = values
        norm = clipped_step(self._student_optimiser, config.clip)
        self._backbone.mark_updated()
        skipped = float(not math.isfinite(norm))
        return {"loss_student": loss, "grad_norm_student": norm, "skipped": skipped}

    def _update_composer(self, examples: Sequence[Example], delta: float) -> Metrics:
        """One step on the mean over episodes of KL, margin and anchor; then the dual variable."""
        config = self.config
        sums = {"loss_composer": 0.0, "kl_composer": 0.0, "anchor": 0.0}
        for part in in_parts(examples, config):
            latents = latents_of(self.composer, part)
            states = teacher_states(self._backbone, part, latents, config)
            wanted = torch.cat([x.wanted for x in part])
            q_log = log_probs_at(self._backbone.base, states, wanted)
            p_log = torch.cat([x.p_log for x in part])
            kl = episode_means(_kl(p_log, q_log), part)
            sign = torch.stack([x.sign for x in part]).to(kl.device)
            lead = sign * episode_means(leads(q_log, p_log, config), part)
            anchor = self._distances_to_cold_start(part, latents)
            losses = composer_loss(
                kl,
                lead,
                anchor,
                beta=self.beta,
                margin=config.margin,
                anchor_weight=config.anchor,
            )
            (losses.sum() / len(examples)).backward()  # type: ignore[no-untyped-call]
            for name, values in zip(sums, (losses, kl, anchor), strict=True):
                sums[name] += values.sum().item() / len(examples)
        norm = clipped_step(self._composer_optimiser, config.clip)
        if math.isfinite(norm):
            self.beta = dual_step(
                self.beta, delta, config.margin, config.beta_rate, config.beta_cap
            )
        return {**sums, "grad_norm_composer": norm}

    def _distances_to_cold_start(
        self, part: Sequence[Example], latents: Sequence[Tensor]
    ) -> Tensor:
        """Mean squared distance of each episode's latents to those of the cold start's composer.

        Computed anew and not kept: a task seldom comes twice, and a resumed run has to end with
        the same numbers, which depend on a latent's batch in the last bits.
        """
        with torch.no_grad():
            cold = latents_of(self._cold, part)
        return torch.stack([(z - c).square().mean() for z, c in zip(latents, cold, strict=True)])

    def token_view(self, episode: Episode, step: Sequence[Episode]) -> TokenView | None:
        """Compare teacher and student where the bank holds something for the episode's task."""
        examples = make_examples([episode], self._backbone, self.retriever, self.config)
        if not examples:
            return None
        (x,) = examples
        with torch.no_grad():
            (latents,) = latents_of(self.composer, examples)
        teacher = target_log_probs(self._backbone.base, replace(x.teacher, latents=latents))
        with base_precision(self._backbone):
            student = target_log_probs(self._backbone.student, x.student)
        context = "\n\n".join(item.text for item in x.items)
        return TokenView(np.flatnonzero(x.student.supervised), teacher, student, context)

    # -- what an evaluation can play, and what a resumed run needs -----------------------------

    def teacher(
        self,
        sampling: Sampling,
        *,
        other_group: bool = False,
        max_new_tokens: int = 512,
        max_context_tokens: int = 32_768,
    ) -> Policy:
        """Return a policy that plays as the teacher does: the base model with latents.

        Args:
            sampling: How tokens are drawn.
            other_group: Whether it is shown experiences of other groups instead: a control.
            max_new_tokens: Tokens of one turn.
            max_context_tokens: Tokens of a whole conversation, latents included.
        """
        return TeacherPolicy(
            self._backbone,
            self.composer,
            self.retriever,
            self.config,
            sampling,
            other_group,
            max_new_tokens,
            max_context_tokens,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return composers, optimisers and the dual variable."""
        return {
            "composer": self.composer.state_dict(),
            "cold_composer": self._cold.state_dict(),
            "student_optimiser": self._student_optimiser.state_dict(),
            "composer_optimiser": self._composer_optimiser.state_dict(),
            "beta": self.beta,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.composer.load_state_dict(state["composer"])
        self._cold.load_state_dict(state["cold_composer"])
        self._student_optimiser.load_state_dict(state["student_optimiser"])
        self._composer_optimiser.load_state_dict(state["composer_optimiser"])
        self.beta = float(state["beta"])


def _kl(p_log: Tensor, q_log: Tensor) -> Tensor:
    """KL(student || teacher) [S] on support and tail; the last column is the sampled token's."""
    return reverse_kl(with_tail(p_log[:, :-1]), with_tail(q_log[:, :-1]))
