"""One episode as GRPO trains on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.tasks import Termination
from lopd_learners.forward import TokenRow
from lopd_learners.grpo.config import GRPOConfig
from lopd_learners.policy_gradient import group_advantages, overlong_penalty
from lopd_learners.rows import recorded_log_probs, student_row

_CUT_OFF = (Termination.STEP_LIMIT, Termination.TOKEN_LIMIT, Termination.TIMEOUT)


@dataclass(slots=True, eq=False)
class Sample:
    """One episode of a step: its tokens and its advantage.

    ``old_log`` [S] are the sampled tokens' log-probabilities before the step, once they are known;
    ``teacher_log`` [S] what a teacher gives them, where there is one.
    """

    episode: Episode
    row: TokenRow
    advantage: float
    old_log: Tensor | None = None
    teacher_log: Tensor | None = None

    @property
    def tokens(self) -> int:
        """Sampled tokens (S)."""
        return int(self.row.supervised.sum())

    def old(self, now: Tensor) -> Tensor:
        """Return log-probabilities from before the step; the first pass over it brings them."""
        if self.old_log is None:
            self.old_log = now
        return self.old_log

    @property
    def group(self) -> tuple[str, int]:
        """Episodes of one task that one version of the policy played."""
        return self.episode.task_id, self.episode.policy_version

    @property
    def recorded(self) -> Tensor:
        """Log-probabilities that the sampler recorded, [S]."""
        return recorded_log_probs(self.episode, self.row)


def make_samples(episodes: Sequence[Episode], config: GRPOConfig) -> list[Sample]:
    """Give each episode its advantage; leaves out what failed, is masked or has nothing sampled."""
    episodes = [e for e in episodes if not e.failed]
    scores = torch.tensor([e.outcome.score or 0.0 for e in episodes])
    if config.overlong_from is not None:
        lengths = torch.tensor([e.sampled_tokens for e in episodes])
        scores -= overlong_penalty(lengths, config.overlong_from, config.overlong_buffer)
    groups = [(e.task_id, e.policy_version) for e in episodes]
    advantages = group_advantages(scores, groups, config.scale).tolist()
    samples = [
        Sample(e, student_row(e, config.max_tokens), advantage)
        for e, advantage in zip(episodes, advantages, strict=True)
        if not (config.mask_truncated and e.outcome.termination in _CUT_OFF)
    ]
    return [x for x in samples if x.tokens]


def split(values: Tensor, part: Sequence[Sample]) -> tuple[Tensor, ...]:
    """Cut what was computed for all sampled tokens of a part into its episodes."""
    return torch.split(values, [x.tokens for x in part])


def spread(values: Sequence[float], part: Sequence[Sample], device: torch.device) -> Tensor:
    """Repeat one value of each sample for each of its tokens, [S]."""
    pieces = [torch.full((x.tokens,), float(v)) for x, v in zip(part, values, strict=True)]
    return torch.cat(pieces).to(device)
