"""LOPD's cold start: the composer learns to help the frozen base repeat its own successes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lopd_gym.env import episode_seed
from lopd_gym.learner import Progress
from lopd_gym.policy.backbone import Backbone
from lopd_learners.forward import log_probs_at
from lopd_learners.lopd.composer import Composer
from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.lopd.example import Example, in_parts, latents_of, sampled_of, teacher_states
from lopd_learners.optim import clipped_step


def fit_composer(
    composer: Composer,
    backbone: Backbone,
    examples: Sequence[Example],
    config: LOPDConfig,
    seed: int,
    progress: Progress,
) -> None:
    """Minimise the token mean of -log q(y* | prompt with latents) over successes (paper, A.2)."""
    if not examples:
        return
    optimiser = torch.optim.AdamW(
        composer.parameters(), lr=config.cold_start_lr, weight_decay=config.weight_decay
    )
    rng = np.random.default_rng(episode_seed(seed, "cold start"))
    size = min(config.cold_start_batch, len(examples))
    for step in range(config.cold_start_steps):
        batch = [examples[i] for i in rng.choice(len(examples), size, replace=False)]
        total, loss = sum(x.tokens for x in batch), 0.0
        for part in in_parts(batch, config):
            states = teacher_states(backbone, part, latents_of(composer, part), config)
            sampled = sampled_of(part, states.device)
            share = -log_probs_at(backbone.base, states, sampled[:, None]).sum() / total
            share.backward()
            loss += share.item()
        norm = clipped_step(optimiser, config.cold_start_clip)
        progress(step + 1, config.cold_start_steps, {"loss": loss, "grad_norm": norm})
