"""One episode with its memory, as LOPD trains on it, and its way through the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from lopd_gym.bank import Experience
from lopd_gym.episode import Episode
from lopd_gym.policy.backbone import Backbone
from lopd_learners.forward import TokenRow, micro_batches, supervised_states
from lopd_learners.lopd.composer import Composer
from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.lopd.memory import Retriever, teacher_row
from lopd_learners.losses import outcome_sign


def _nothing() -> Tensor:
    return torch.empty(0)


@dataclass(slots=True, eq=False)
class Example:
    """One episode with its memory, and what the phases of a step note about it.

    S counts the episode's sampled tokens, M the support. Whatever is noted has no gradient.
    """

    episode: Episode
    items: tuple[Experience, ...]
    student: TokenRow
    teacher: TokenRow
    tokens: int  # S
    support: Tensor = field(default_factory=_nothing)  # [S, M] the teacher's likeliest tokens
    q_log: Tensor = field(default_factory=_nothing)  # [S, M+1] teacher: support, sampled token
    entropy: Tensor = field(default_factory=_nothing)  # [S] the teacher's
    p_log: Tensor = field(default_factory=_nothing)  # [S, M+1] student: support, sampled token

    @property
    def sign(self) -> Tensor:
        """A(tau): +1 for a success, -1 for a failure."""
        return outcome_sign(torch.tensor(self.episode.outcome.score or 0.0))

    @property
    def wanted(self) -> Tensor:
        """Support and sampled token as ids, [S, M+1]."""
        sampled = self.student.targets.to(self.support.device)
        return torch.cat([self.support, sampled[:, None]], dim=-1)


def make_examples(
    episodes: Sequence[Episode], backbone: Backbone, retriever: Retriever, config: LOPDConfig
) -> list[Example]:
    """Give each episode its memory; leaves out what failed or has nothing sampled or retrieved."""
    examples = []
    for episode in episodes:
        tokens = int(episode.loss_mask[: config.max_tokens].sum())
        if episode.failed or not tokens:
            continue
        items = retriever.find(episode.instruction, episode.task_id, episode.env)
        if not items:
            continue
        rows = teacher_row(backbone, episode, len(items) * config.latents, config)
        examples.append(Example(episode, items, *rows, tokens))
    return examples


def in_parts(examples: Sequence[Example], config: LOPDConfig) -> list[list[Example]]:
    """Split examples into micro-batches."""
    lengths = [len(x.teacher.ids) for x in examples]
    groups = micro_batches(lengths, config.micro_batch_tokens)
    return [[examples[i] for i in group] for group in groups]


def latents_of(composer: Composer, part: Sequence[Example]) -> list[Tensor]:
    """Compose the memory [J K, d] of each example."""
    return composer.memories([(x.episode.instruction, x.items) for x in part])


def teacher_states(
    backbone: Backbone, part: Sequence[Example], latents: Sequence[Tensor], config: LOPDConfig
) -> Tensor:
    """Return the base model's states that predict the sampled tokens, with latents in the prompt.

    The encoder's adapter is part of another module tree, so it is off here.
    """
    rows = [replace(x.teacher, latents=z) for x, z in zip(part, latents, strict=True)]
    return supervised_states(backbone.base, rows, recompute=config.gradient_checkpointing)


def split(values: Tensor, part: Sequence[Example]) -> tuple[Tensor, ...]:
    """Cut what was computed for all supervised tokens of a part into its episodes."""
    return torch.split(values, [x.tokens for x in part])


def episode_means(values: Tensor, part: Sequence[Example]) -> Tensor:
    """Average over the tokens of each episode."""
    return torch.stack([mine.mean() for mine in split(values, part)])


def sampled_of(part: Sequence[Example], device: torch.device) -> Tensor:
    """Return the sampled tokens of a part, [S]."""
    return torch.cat([x.student.targets for x in part]).to(device)
