"""EnvScaler's reward, and what should be reported beside it."""

from __future__ import annotations

from collections.abc import Sequence

from lopd_gym.errors import DataError
from lopd_gym.tasks import Check

FULL_PASS = 0.999
"""The reward from which on an episode counts as solved."""


def official_reward(checks: Sequence[Check]) -> float:
    """Return the fraction of passed checks, rounded to four digits as EnvScaler does.

    Raises:
        DataError: There is no check to pass.
    """
    if not checks:
        raise DataError("Expected at least one check to score by, found none.")
    return round(sum(c.passed for c in checks) / len(checks), 4)


def reward_above_noop(reward: float, noop_reward: float) -> float:
    """Return the share of the reward not given for doing nothing: max(0, (r - r0) / (1 - r0))."""
    if noop_reward >= 1.0:
        return 0.0
    return max(0.0, (reward - noop_reward) / (1.0 - noop_reward))


def name_errors(checks: Sequence[Check]) -> int:
    """Count checks that failed on an unknown name: a sign that ``initial_state`` went missing."""
    return sum((c.error or "").startswith("NameError") for c in checks)
