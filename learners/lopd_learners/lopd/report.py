"""What LOPD logs of every step about teacher, student and the episodes they were compared on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lopd_gym.learner import Metrics
from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.lopd.example import Example


def leads(q_log: Tensor, p_log: Tensor, config: LOPDConfig) -> Tensor:
    """Return by how much the teacher leads on sampled tokens, log q - log p: LOPD's delta.

    Args:
        q_log: The teacher's log-probabilities, the sampled token's in the last column, [S, M+1].
        p_log: The student's, [S, M+1].
        config: Its ``delta_clamp`` is applied.
    """
    lead = q_log[:, -1] - p_log[:, -1]
    limit = config.delta_clamp
    return lead if limit is None else lead.clamp(-limit, limit)


def describe(examples: Sequence[Example], config: LOPDConfig) -> Metrics:
    """Summarise one step's examples, as they were before any update.

    ``delta`` is the token mean of A(tau) times the teacher's lead; its parts are over episodes
    with A > 0 and with A < 0. Where the teacher's ``entropy`` falls while ``delta_failure`` grows,
    the composer wins on failures by driving the sampled tokens' probability to 0.
    """
    lead = torch.cat([leads(x.q_log, x.p_log, config) for x in examples])
    sign = torch.cat([x.sign.expand(x.tokens) for x in examples]).to(lead.device)
    scores = np.array([x.episode.outcome.score or 0.0 for x in examples])
    own = [any(item.task_id == x.episode.task_id for item in x.items) for x in examples]
    tokens = sum(x.tokens for x in examples)
    return {
        "delta": _mean(sign * lead),
        "delta_success": _mean((sign * lead)[sign > 0]),
        "delta_failure": _mean((sign * lead)[sign < 0]),
        "teacher_entropy": _mean(torch.cat([x.entropy for x in examples])),
        "score_std": float(scores.std()),
        "self_hit_rate": float(np.mean(own)),
        "trained_episodes": float(len(examples)),
        "trained_token_share": tokens / sum(len(x.student.ids) for x in examples),
    }


def _mean(values: Tensor) -> float:
    """Mean; 0 where there is nothing."""
    return values.mean().item() if len(values) else 0.0
