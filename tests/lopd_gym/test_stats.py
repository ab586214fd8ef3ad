"""Statistics, checked against known numbers and by simulation of their promises."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopd_gym import stats
from lopd_gym.errors import UsageError
from lopd_gym.stats import mcnemar_exact, mean_interval, paired_difference, wilson_interval

ROUNDS = 400
Draw = Callable[[np.random.Generator], tuple[np.ndarray, "list[int] | None"]]


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_RESAMPLES", 1_000)


def successes(n: int, rate: float) -> Draw:
    return lambda g: ((g.random(n) < rate).astype(float), None)


def scores(n: int) -> Draw:
    return lambda g: (g.beta(0.5, 0.5, n), None)


def repeated(tasks: int) -> Draw:
    """Return attempts in clusters: each task has its own difficulty and 1 to 5 attempts."""

    def draw(g: np.random.Generator) -> tuple[np.ndarray, list[int]]:
        attempts = g.integers(1, 6, tasks)
        labels = np.repeat(np.arange(tasks), attempts)
        return (g.random(len(labels)) < g.random(tasks)[labels]).astype(float), labels.tolist()

    return draw


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(
    ("draw", "truth"),
    [
        (successes(50, 0.5), 0.5),
        (successes(200, 0.1), 0.1),
        (scores(20), 0.5),
        (scores(100), 0.5),
        (repeated(30), 0.5),
    ],
    ids=["50 successes", "200 rare successes", "20 scores", "100 scores", "30 clusters"],
)
def test_mean_intervals_cover_at_their_rate(draw: Draw, truth: float) -> None:
    generator = np.random.default_rng(7)
    covered = 0
    for seed in range(ROUNDS):
        values, clusters = draw(generator)
        found = mean_interval(values, clusters, seed)
        covered += found.low <= truth <= found.high
    # 95 % +- 3 standard errors of a rate over 400 rounds, and some room for discreteness
    assert 0.915 <= covered / ROUNDS <= 0.985


@pytest.mark.usefixtures("few_resamples")
def test_clusters_matter() -> None:
    """The same attempts taken as independent give intervals that are too narrow."""
    generator = np.random.default_rng(7)
    covered = 0
    for seed in range(ROUNDS):
        values = np.repeat(generator.random(25) < 0.5, 4).astype(float)
        naive = mean_interval(values, None, seed)
        covered += naive.low <= 0.5 <= naive.high
        whole = mean_interval(values, np.repeat(np.arange(25), 4).tolist(), seed)
        assert whole.high - whole.low > naive.high - naive.low
    assert covered / ROUNDS < 0.8


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("n", [25, 100])
def test_paired_intervals_raise_false_alarms_at_their_level(n: int) -> None:
    generator = np.random.default_rng(3)
    alarms = 0
    for seed in range(ROUNDS):
        difficulty = generator.random(n)
        a, b = (generator.random((2, n)) < difficulty).astype(float)
        found = paired_difference(a, b, seed=seed)
        alarms += found.low > 0 or found.high < 0
    assert 0.015 <= alarms / ROUNDS <= 0.085


@pytest.mark.usefixtures("few_resamples")
def test_paired_intervals_find_what_unpaired_ones_miss() -> None:
    generator = np.random.default_rng(5)
    base = generator.random(60)
    student = base + 0.05 + 0.02 * generator.normal(size=60)
    assert paired_difference(base, student).low > 0
    assert mean_interval(student).low < mean_interval(base).mean


def test_wilson_intervals_cover_at_their_rate() -> None:
    generator = np.random.default_rng(1)
    for n, rate in ((20, 0.1), (50, 0.5), (200, 0.95)):
        intervals = [wilson_interval(int(k), n) for k in range(n + 1)]
        draws = generator.binomial(n, rate, 4_000)
        covered = np.mean([intervals[k].low <= rate <= intervals[k].high for k in draws])
        assert 0.92 <= covered <= 0.985


def test_mcnemar_raises_false_alarms_below_its_level() -> None:
    generator = np.random.default_rng(2)
    alarms = 0
    for _ in range(ROUNDS):
        a, b = generator.random((2, 80)) < 0.4
        alarms += mcnemar_exact(a, b) < 0.05
    assert 0.005 <= alarms / ROUNDS <= 0.07


def test_known_numbers() -> None:
    # Wilson: Newcombe 1998 (81 of 263), and z^2 / (n + z^2) at no success
    found = wilson_interval(81, 263)
    assert (found.low, found.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    z2 = 1.959963984540054**2
    assert wilson_interval(0, 10).high == pytest.approx(z2 / (10 + z2))
    assert wilson_interval(0, 10).low == 0.0
    assert wilson_interval(10, 10).high == 1.0
    # McNemar: 1 lost, 9 gained: 2 * (1 + 10) / 2^10
    a, b = [1] + [0] * 9 + [1, 0], [0] + [1] * 9 + [1, 0]
    assert mcnemar_exact(a, b) == mcnemar_exact(b, a) == pytest.approx(22 / 1024)
    assert mcnemar_exact([1, 0], [1, 0]) == 1.0


def test_the_bootstrap_agrees_with_student_for_normal_values() -> None:
    values = np.random.default_rng(0).normal(size=200)
    half = 1.971957 * values.std(ddof=1) / math.sqrt(200)
    found = mean_interval(values)
    assert found.mean == pytest.approx(values.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.03)


def test_equal_input_gives_equal_output_and_large_input_is_resampled_in_blocks() -> None:
    values = np.random.default_rng(0).random(3_000)
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval(values) != mean_interval(values, seed=1)


def test_clusters_of_one_are_no_clusters() -> None:
    values = [0.0, 1.0, 0.5, 0.25]
    assert mean_interval(values, ["a", "b", "c", "d"]) == mean_interval(values)


def test_one_task_says_nothing_about_others() -> None:
    found = mean_interval([1.0, 0.0], ["same", "same"])
    assert (found.mean, found.low, found.high) == (0.5, -math.inf, math.inf)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_intervals_hold_their_mean(values: list[float]) -> None:
    found = mean_interval(values)
    assert found.low <= found.mean <= found.high
    assert min(values) - 1e-12 <= found.low
    assert found.high <= max(values) + 1e-12


def test_wrong_input_is_refused() -> None:
    for call in (
        lambda: mean_interval([]),
        lambda: mean_interval([1.0, math.nan]),
        lambda: mean_interval([[1.0, 2.0]]),
        lambda: mean_interval([1.0, 2.0], ["a"]),
        lambda: paired_difference([1.0], [1.0, 2.0]),
        lambda: wilson_interval(1, 0),
        lambda: wilson_interval(3, 2),
        lambda: mcnemar_exact([0.5], [1.0]),
    ):
        with pytest.raises(UsageError):
            call()
