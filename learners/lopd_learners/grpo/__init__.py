"""GRPO and its variants: policy gradients relative to the siblings of one task."""

from lopd_learners.grpo.config import GRPOConfig
from lopd_learners.grpo.learner import GRPO

__all__ = ["GRPO", "GRPOConfig"]
