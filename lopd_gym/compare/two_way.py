"""A mean over training seeds and tasks, with an interval that covers new seeds and new tasks.

Seeds and tasks are crossed random effects: every seed's student plays the same tasks. The variance
of the mean comes from the mean squares of the two-way layout, and degrees of freedom from
Satterthwaite (1946), as if all of the seeds' share were known from the seeds alone. In simulation
(see the tests) the test never exceeds its level; with few seeds whose students hardly differ it
stays well below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lopd_gym.errors import UsageError
from lopd_gym.stats import CONFIDENCE, Interval, wilson_interval

_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, its standard error, and the degrees of freedom of that."""

    mean: float
    error: float
    freedom: float

    @property
    def interval(self) -> Interval:
        """The mean with its 95 % interval."""
        half = self._quantile(0.5 + CONFIDENCE / 2) * self.error
        return Interval(self.mean, self.mean - half, self.mean + half)

    @property
    def p(self) -> float:
        """Two-sided p-value of the test that the true mean is 0."""
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.freedom))

    @property
    def detectable(self) -> float:
        """Smallest true mean that the test at 5 % finds with a probability of 80 %."""
        return (self._quantile(0.5 + CONFIDENCE / 2) + self._quantile(_POWER)) * self.error

    def _quantile(self, level: float) -> float:
        return float(stats.t.ppf(level, self.freedom))


def two_way(values: ArrayLike) -> Estimate:
    """Estimate the mean of values [seeds, tasks], each in [-1, 1].

    With one seed the estimate covers new tasks, but not another training. Where no value differs
    from any other, the error is that of Wilson's interval for an event that was never seen.

    Raises:
        UsageError: There are fewer than two tasks, or a value is not finite.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or not np.isfinite(table).all():
        raise UsageError(
            f"Expected finite values of seeds x at least 2 tasks, found shape {table.shape}."
        )
    tasks = table.shape[1]
    variance, freedom = _variance(table)
    if variance == 0:
        never_seen = wilson_interval(0, tasks).high / float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
        return Estimate(float(table.mean()), never_seen, tasks - 1)
    return Estimate(float(table.mean()), math.sqrt(variance), freedom)


def _variance(table: NDArray[np.float64]) -> tuple[float, float]:
    """Return the variance of the grand mean and its degrees of freedom."""
    seeds, tasks = table.shape
    if seeds == 1:
        return float(table.var(ddof=1)) / tasks, tasks - 1
    rows, columns = table.mean(1), table.mean(0)
    rest = table - rows[:, None] - columns + table.mean()
    rest_freedom = (seeds - 1) * (tasks - 1)
    of_rest = float((rest**2).sum()) / rest_freedom
    # A mean square of seeds below that of the rest is so by chance: seeds cannot lower variance.
    of_seeds = max(tasks * float(rows.var(ddof=1)), of_rest)
    of_tasks = seeds * float(columns.var(ddof=1))
    parts = [(of_seeds, seeds - 1)]
    if of_tasks > of_rest:
        parts += [(of_tasks, tasks - 1), (-of_rest, rest_freedom)]
    total = sum(square for square, _ in parts)
    spread = sum(square**2 / freedom for square, freedom in parts)
    return total / (seeds * tasks), total**2 / spread if spread else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for testing several hypotheses (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
