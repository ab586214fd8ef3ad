"""Statistics over seeds and tasks: by hand, by simulation, and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from lopd_gym.compare.two_way import holm, two_way
from lopd_gym.errors import UsageError

REPEATS = 400
Table = NDArray[np.float64]


def successes(
    rng: np.random.Generator, seeds: int, tasks: int, seed_sd: float, gap: float
) -> tuple[Table, Table]:
    """0/1 outcomes of two learners: shared task difficulty, an effect of each training seed."""
    difficulty = rng.normal(rng.choice([0.0, 2.0]), 1, tasks)

    def play(shift: float) -> Table:
        logits = difficulty + shift + rng.normal(0, seed_sd, (seeds, 1))
        return (rng.random((seeds, tasks)) < 1 / (1 + np.exp(-logits))).astype(float)

    return play(0.0), play(gap)


def alarms(seeds: int, tasks: int, seed_sd: float, gap: float = 0.0) -> float:
    rng = np.random.default_rng(0)
    pairs = (successes(rng, seeds, tasks, seed_sd, gap) for _ in range(REPEATS))
    return float(np.mean([two_way(b - a).p < 0.05 for a, b in pairs]))


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
@pytest.mark.parametrize("tasks", [32, 200])
@pytest.mark.parametrize("seed_sd", [0.0, 0.3, 1.0])
def test_without_a_difference_false_alarms_stay_at_their_level(
    seeds: int, tasks: int, seed_sd: float
) -> None:
    if seeds == 1 and seed_sd:
        pytest.skip("one seed cannot speak for others, and does not claim to")
    most = stats.binom.ppf(0.999, REPEATS, 0.05) / REPEATS
    assert alarms(seeds, tasks, seed_sd) <= most


@pytest.mark.parametrize(("seeds", "tasks", "gap"), [(1, 200, 1.0), (3, 200, 1.2), (5, 128, 1.0)])
def test_a_real_difference_is_found(seeds: int, tasks: int, gap: float) -> None:
    assert alarms(seeds, tasks, 0.1, gap) > 0.8


def test_the_detectable_difference_is_found_in_four_of_five_cases() -> None:
    rng, tasks = np.random.default_rng(1), 300
    sizes = [two_way(rng.normal(0, 1, (1, tasks)) / 4).detectable for _ in range(50)]
    found, size = 0, float(np.mean(sizes))
    for _ in range(REPEATS):
        found += two_way(rng.normal(4 * size, 1, (1, tasks)) / 4).p < 0.05
    assert found / REPEATS == pytest.approx(0.8, abs=0.08)


@pytest.mark.parametrize("seed_sd", [0.0, 0.5])
def test_intervals_cover_the_true_mean(seed_sd: float) -> None:
    rng, covered = np.random.default_rng(2), 0
    for _ in range(REPEATS):
        seed, task = rng.normal(0.3, seed_sd, (4, 1)), rng.normal(0, 1, (1, 60))
        found = two_way(seed + task + rng.normal(0, 1, (4, 60))).interval
        covered += found.low <= 0.3 <= found.high
    assert covered / REPEATS >= 0.93


def test_one_seed_is_students_t_over_tasks() -> None:
    values = np.random.default_rng(3).normal(0.2, 1, 40)
    found, expected = two_way(values[None]), stats.ttest_1samp(values, 0)
    assert found.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


def test_two_seeds_by_hand() -> None:
    found = two_way([[1, 0, 1, 1], [0, 0, 1, 0]])
    # rows .75, .25; columns .5, 0, 1, .5; mean squares: seeds .5, tasks 1/3, rest 1/6
    assert found.mean == 0.5
    assert found.error == pytest.approx(np.sqrt((1 / 2 + 1 / 3 - 1 / 6) / 8))
    freedom = (2 / 3) ** 2 / ((1 / 2) ** 2 / 1 + (1 / 3) ** 2 / 3 + (1 / 6) ** 2 / 3)
    assert found.freedom == pytest.approx(freedom)


def test_equal_outcomes_everywhere_leave_the_doubt_that_their_number_allows() -> None:
    never = two_way(np.zeros((3, 100)))
    assert never.mean == 0
    assert never.p == 1
    assert 0.02 < never.interval.high < 0.05
    assert two_way(np.ones((3, 100))).p < 1e-6


@pytest.mark.parametrize("wrong", [[[1.0]], [1.0, 2.0], [[1.0, np.nan]], []])
def test_what_is_no_table_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="seeds x at least 2 tasks"):
        two_way(wrong)  # type: ignore[arg-type]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()
