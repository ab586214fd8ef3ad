"""The tiny policy's composer: it learns to read traces while the policy stays frozen.

It sees demonstrations that follow random house rules, and the traces that show them; what it
writes down as latents has to tell the policy which rules to follow. A memory of another domain
comes before a demonstration with the policy's own habits, so it has to tell nothing then. No step
depends on which rules are true in the starter suite, except through those habits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lopd_learners.lopd.composer import Composer, ComposerConfig, Compressor
from torch import nn
from transformers import Qwen3ForCausalLM

from lopd_gym.chat import get_format
from lopd_gym.policy.backbone import Backbone
from recipes.tiny_policy.demonstrations import (
    ALL_LEVELS,
    SHORT_LEVELS,
    Demonstrator,
    Sample,
)
from recipes.tiny_policy.train import Report, Schedule, train

CONFIG = ComposerConfig(latents=8, depth=2, rank=8, alpha=16.0)
SHORT = Schedule(tokens=3_000_000, batch_tokens=5_500, other_lr=2e-3, decay_from=0.8)
FULL = Schedule(tokens=2_000_000, batch_tokens=8_000, matrix_lr=0.01, other_lr=1e-3, decay_from=0.0)
OTHER_DOMAIN = 0.12
"""Share of demonstrations whose memory is of another domain."""


def make_composer(model: Qwen3ForCausalLM, tokenizer: Any, seed: int, report: Report) -> Composer:
    """Train a composer for a policy: first on short tasks, then on all."""
    chat = get_format("compact")
    model.requires_grad_(False)
    composer = Composer(Backbone(model, tokenizer, chat), CONFIG, seed=seed)
    _put_in_copying(composer.compressor, seed)
    demonstrator = Demonstrator(chat, tokenizer, CONFIG.latents)

    def latents(samples: Sequence[Sample]) -> list[torch.Tensor]:
        instructions = [s.instruction for s in samples for _ in s.items]
        made = iter(composer(instructions, [item for s in samples for item in s.items]))
        return [torch.cat([next(made) for _ in s.items]) for s in samples]

    for schedule, levels in ((SHORT, SHORT_LEVELS), (FULL, ALL_LEVELS)):

        def demonstration(number: int, levels: tuple[int, ...] = levels) -> Sample:
            rng = random.Random(f"{seed}/composer/{levels}/{number}")
            same_domain = rng.random() >= OTHER_DOMAIN
            return demonstrator.draw(rng, "latents", same_domain=same_domain, levels=levels)

        train(model, demonstration, schedule, report, trained=composer, latents=latents)
    return composer


def save_composer(composer: Composer, folder: Path) -> None:
    """Write the composer beside the policy, in half precision."""
    composer.save(folder, dtype=torch.float16)


@torch.no_grad()
def _put_in_copying(compressor: Compressor, seed: int) -> None:
    """Let the compressor start as a copying device.

    A hidden state of the backbone resembles the embeddings around its position, which the policy
    can read. So each latent starts as the hidden states that resemble its own query, passed on
    nearly as they are. Without this, nothing is learned in the first hundreds of steps.
    """
    rng = torch.Generator().manual_seed(seed)
    size = compressor.value.weight.shape[0]
    for layer in (
        compressor.project_in,
        compressor.value,
        compressor.out,
        compressor.project_out,
    ):
        layer.weight.mul_(0.1).add_(torch.eye(size))
        if layer.bias is not None:
            layer.bias.zero_()
    compressor.down.weight.mul_(0.1)
    nn.init.orthogonal_(compressor.query.weight, gain=1.6, generator=rng)
    compressor.key.weight.copy_(compressor.query.weight)
