"""The LOPD learner: one training step, in the order of the paper's algorithm.

1. Retrieve experiences for each episode's task.
2. Teacher, without gradient: latents, then the support of its most likely tokens.
3. Student: one optimiser step on the reverse KL to the teacher, over every sampled token.
4. Composer: one optimiser step on KL, privileged margin and anchor, with the student's numbers
   of step 3 held fixed; then the dual variable.

Both updates use quantities from before either of them. A step whose gradient is not finite is
skipped as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lopd_gym.bank import Experience
from lopd_gym.env import episode_seed
from lopd_gym.episode import Episode, Sampling
from lopd_gym.learner import Learner, LearnerContext, Metrics, Needs, Progress
from lopd_gym.policy.base import Policy
from lopd_learners.forward import (
    TokenRow,
    log_probs_at,
    micro_batches,
    supervised_states,
    top_support,
)
from lopd_learners.lopd.composer import Composer, make_composer
from lopd_learners.lopd.config import PRESETS, LOPDConfig
from lopd_learners.lopd.memory import Retriever, teacher_row
from lopd_learners.lopd.teacher import TeacherPolicy
from lopd_learners.losses import dual_step, outcome_sign, reverse_kl, with_tail


@dataclass(slots=True, eq=False)
class Example:
    """One episode with its memory, and what the phases of a step note about it.

    S counts the episode's sampled tokens, M the support.
    """

    episode: Episode
    items: tuple[Experience, ...]
    student: TokenRow
    teacher: TokenRow
    support: Tensor | None = None  # [S, M] token ids
    q_log: Tensor | None = None  # [S, M] the teacher's log-probabilities of them
    entropy: Tensor | None = None  # [S]
    p_log: Tensor | None = None  # [S, M+1] the student's, and of the sampled token

    @property
    def tokens(self) -> int:
        """How many tokens are supervised."""
        return int(self.student.supervised.sum())


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
        self._backbone = context.backbone
        self.retriever = Retriever(context.bank, config)
        self.composer: Composer = make_composer(config, context.backbone, context.seed)
        self._cold: Composer = make_composer(config, context.backbone, context.seed)
        self._cold_latents: dict[tuple[str, str], Tensor] = {}
        self.beta = config.beta
        self._student_optimiser = torch.optim.AdamW(
            context.backbone.student_parameters(),
            lr=config.student_lr,
            weight_decay=config.weight_decay,
        )
        self._composer_optimiser = torch.optim.AdamW(
            self.composer.parameters(), lr=config.composer_lr, weight_decay=config.weight_decay
        )

    @property
    def needs(self) -> Needs:
        """One episode for each task, and a bank."""
        return Needs(episodes_per_task=1, bank=True)

    # -- cold start --------------------------------------------------------------------------

    def prepare(self, successes: Sequence[Episode], progress: Progress) -> None:
        """Fit the composer to the base policy's own successes (paper, A.2)."""
        config = self.config
        steps = config.cold_start_steps if config.composer == "train" else 0
        examples = [x for e in successes if (x := self._example(e)) is not None]
        optimiser = torch.optim.AdamW(self.composer.parameters(), lr=config.cold_start_lr)
        rng = np.random.default_rng(episode_seed(self.context.seed, "cold start"))
        for step in range(steps if examples else 0):
            chosen = rng.choice(len(examples), min(config.cold_start_batch, len(examples)), False)
            batch = [examples[i] for i in chosen]
            total = sum(x.tokens for x in batch)
            loss = 0.0
            for part in self._parts(batch):
                rows = self._with_latents(part)
                log_probs = self._sampled_log_probs(rows)
                part_loss = -torch.cat(log_probs).sum() / total
                part_loss.backward()
                loss += part_loss.item()
            self._step(optimiser, self.composer.parameters(), config.cold_start_clip)
            progress(step + 1, steps, {"loss": loss})
        self._cold.load_state_dict(self.composer.state_dict())

    def _sampled_log_probs(self, rows: Sequence[TokenRow]) -> list[Tensor]:
        """The base model's log-probabilities of the sampled tokens of each row."""
        base = self._backbone.base
        states = supervised_states(base, rows)
        targets = torch.cat([row.targets for row in rows]).to(states.device)
        flat = log_probs_at(base, states, targets[:, None]).squeeze(-1)
        return list(torch.split(flat, [int(row.supervised.sum()) for row in rows]))

    # -- one training step -------------------------------------------------------------------

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Update student, composer and dual variable from one step's episodes."""
        examples = [x for e in episodes if (x := self._example(e)) is not None]
        if not examples:
            return {"skipped": 1.0, "beta": self.beta, "trained_episodes": 0.0}
        total = sum(x.tokens for x in examples)
        self._teach(examples)
        kl, student_norm = self._update_student(examples, total)
        metrics: Metrics = {
            "loss_student": kl,
            "grad_norm_student": student_norm,
            "skipped": float(not np.isfinite(student_norm)),
            **self._describe(examples, episodes),
        }
        if np.isfinite(student_norm) and self.config.composer == "train":
            metrics |= self._update_composer(examples, total)
        return {**metrics, "beta": self.beta}

    @torch.no_grad()
    def _teach(self, examples: Sequence[Example]) -> None:
        """Note the teacher's support and its log-probabilities there."""
        base = self._backbone.base
        for part in self._parts(examples):
            states = supervised_states(base, self._with_latents(part))
            support, entropy = top_support(base, states, self.config.support)
            q_log = log_probs_at(base, states, support)
            sizes = [x.tokens for x in part]
            split = (torch.split(t, sizes) for t in (support, q_log, entropy))
            for x, ids, logs, bits in zip(part, *split, strict=True):
                x.support, x.q_log, x.entropy = ids, logs, bits

    def _update_student(self, examples: Sequence[Example], total: int) -> tuple[float, float]:
        """One step on the token mean of KL(student || teacher); returns it and the norm."""
        student = self._backbone.student
        kl = 0.0
        for part in self._parts(examples):
            states = supervised_states(student, [x.student for x in part])
            log_probs = log_probs_at(student, states, _support_and_sampled(part, states.device))
            q_log = with_tail(torch.cat([_noted(x.q_log) for x in part]))
            loss = reverse_kl(with_tail(log_probs[:, :-1]), q_log).sum() / total
            loss.backward()  # type: ignore[no-untyped-call]
            kl += loss.item()
            noted = torch.split(log_probs.detach(), [x.tokens for x in part])
            for x, values in zip(part, noted, strict=True):
                x.p_log = values
        parameters = self._backbone.student_parameters()
        norm = self._step(self._student_optimiser, parameters, self.config.clip)
        self._backbone.mark_updated()
        return kl, norm

    def _update_composer(self, examples: Sequence[Example], total: int) -> Metrics:
        """One step on mean over episodes of KL + beta (margin - Delta) + anchor; then the dual."""
        config, count = self.config, len(examples)
        sums = {"loss_composer": 0.0, "anchor": 0.0, "kl_composer": 0.0}
        deltas: list[tuple[float, float, int]] = []  # score, mean delta, tokens of each episode
        for part in self._parts(examples):
            latents = self._latents(self.composer, part)
            rows = [replace(x.teacher, latents=z) for x, z in zip(part, latents, strict=True)]
            kls, leads = self._composer_terms(part, rows)
            anchors = self._anchors(part, latents)
            scores = torch.tensor([x.episode.outcome.score or 0.0 for x in part])
            signed = outcome_sign(scores.to(leads.device)) * leads
            losses = kls + self.beta * (config.margin - signed) + config.anchor * anchors
            (losses.sum() / count).backward()  # type: ignore[no-untyped-call]
            for name, values in zip(sums, (losses, anchors, kls), strict=True):
                sums[name] += values.sum().item() / count
            for x, lead in zip(part, leads.tolist(), strict=True):
                deltas.append((x.episode.outcome.score or 0.0, lead, x.tokens))
        norm = self._step(self._composer_optimiser, self.composer.parameters(), config.clip)
        delta = sum((2 * r - 1) * lead * n for r, lead, n in deltas) / total
        if np.isfinite(norm):
            self.beta = dual_step(
                self.beta, delta, config.margin, config.beta_rate, config.beta_cap
            )
        wins = [(lead, n) for r, lead, n in deltas if r >= 1]
        losses_ = [(-lead, n) for r, lead, n in deltas if r < 1]
        return {
            **sums,
            "delta": delta,
            "delta_success": _weighted(wins),
            "delta_failure": _weighted(losses_),
            "grad_norm_composer": norm,
        }

    def _composer_terms(
        self, part: Sequence[Example], rows: Sequence[TokenRow]
    ) -> tuple[Tensor, Tensor]:
        """Return each episode's mean KL and its mean log-ratio teacher over student."""
        base = self._backbone.base
        states = supervised_states(base, rows)
        q_log = log_probs_at(base, states, _support_and_sampled(part, states.device))
        p_log = torch.cat([_noted(x.p_log) for x in part])
        kl = reverse_kl(with_tail(p_log[:, :-1]), with_tail(q_log[:, :-1]))
        lead = q_log[:, -1] - p_log[:, -1]
        if self.config.delta_clamp is not None:
            lead = lead.clamp(-self.config.delta_clamp, self.config.delta_clamp)
        sizes = [x.tokens for x in part]
        kls = torch.stack([values.mean() for values in torch.split(kl, sizes)])
        return kls, torch.stack([values.mean() for values in torch.split(lead, sizes)])

    def _anchors(self, part: Sequence[Example], latents: Sequence[Tensor]) -> Tensor:
        """Mean squared distance of each episode's latents to the cold-start composer's."""
        missing = [x for x in part if self._cold_key(x) not in self._cold_latents]
        with torch.no_grad():
            made = self._latents(self._cold, missing) if missing else []
        for x, z in zip(missing, made, strict=True):
            self._cold_latents[self._cold_key(x)] = z
        cold = [self._cold_latents[self._cold_key(x)] for x in part]
        return torch.stack([(z - c).square().mean() for z, c in zip(latents, cold, strict=True)])

    # -- helpers -----------------------------------------------------------------------------

    def _example(self, episode: Episode) -> Example | None:
        """Return an episode with its memory; None where nothing was sampled or retrieved."""
        if episode.failed or not episode.loss_mask[: self.config.max_tokens].any():
            return None
        items = self.retriever.find(episode.instruction, episode.task_id, episode.env)
        if not items:
            return None
        latents = len(items) * self.config.latents
        return Example(episode, items, *teacher_row(self._backbone, episode, latents, self.config))

    def _parts(self, examples: Sequence[Example]) -> list[list[Example]]:
        lengths = [len(x.teacher.ids) for x in examples]
        groups = micro_batches(lengths, self.config.micro_batch_tokens)
        return [[examples[i] for i in group] for group in groups]

    def _latents(self, composer: Composer, part: Sequence[Example]) -> list[Tensor]:
        """Return the latents [J K, d] of each example."""
        return composer.memories([(x.episode.instruction, x.items) for x in part])

    def _with_latents(self, part: Sequence[Example]) -> list[TokenRow]:
        made = self._latents(self.composer, part)
        return [replace(x.teacher, latents=z) for x, z in zip(part, made, strict=True)]

    def _step(self, optimiser: torch.optim.Optimizer, parameters: Any, max_norm: float) -> float:
        """Clip and step, unless the gradient is not finite; returns the norm before clipping."""
        norm = float(nn.utils.clip_grad_norm_(list(parameters), max_norm))
        if np.isfinite(norm):
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return norm

    def _cold_key(self, example: Example) -> tuple[str, str]:
        return example.episode.task_id, "/".join(item.id for item in example.items)

    def _describe(self, examples: Sequence[Example], episodes: Sequence[Episode]) -> Metrics:
        scores = np.array([e.outcome.score or 0.0 for e in episodes])
        own = [any(i.task_id == x.episode.task_id for i in x.items) for x in examples]
        tokens = sum(x.tokens for x in examples)
        return {
            "trained_episodes": float(len(examples)),
            "trained_token_share": tokens / sum(len(x.student.ids) for x in examples),
            "score_std": float(scores.std()),
            "self_hit_rate": float(np.mean(own)),
            "teacher_entropy": torch.cat([_noted(x.entropy) for x in examples]).mean().item(),
        }

    # -- what a resumed run needs, and what an evaluation can play -----------------------------

    def teacher(self, sampling: Sampling, *, other_group: bool = False) -> Policy:
        """Return a policy that plays as the teacher does: the base model with latents.

        ``other_group`` gives it experiences of other groups instead: a control.
        """
        return TeacherPolicy(
            self._backbone, self.composer, self.retriever, self.config, sampling, other_group
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
        self._cold_latents.clear()
        self._student_optimiser.load_state_dict(state["student_optimiser"])
        self._composer_optimiser.load_state_dict(state["composer_optimiser"])
        self.beta = float(state["beta"])


def _support_and_sampled(part: Sequence[Example], device: torch.device) -> Tensor:
    """Return the support's ids and, in the last column, the sampled one: [S, M+1]."""
    sampled = torch.cat([x.student.targets for x in part]).to(device)
    return torch.cat([torch.cat([_noted(x.support) for x in part]), sampled[:, None]], dim=-1)


def _noted(value: Tensor | None) -> Tensor:
    assert value is not None, "the phases of a step run in order"
    return value


def _weighted(values: Sequence[tuple[float, int]]) -> float:
    """Mean of (value, weight) pairs; 0 where there are none."""
    weight = sum(n for _, n in values)
    return sum(value * n for value, n in values) / weight if weight else 0.0
