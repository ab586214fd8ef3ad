"""pass@k: golden numbers, the definition itself, and no score over a part of the tasks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lopd_envs.evalplus.scoring import pass_at_k, report

from lopd_gym.episode import GREEDY, Episode
from lopd_gym.errors import UsageError
from lopd_gym.tasks import Check, Outcome, Termination


def episode(task_id: str, base: bool, plus: bool, failed: bool = False) -> Episode:
    checks = (Check("base", base), Check("plus", plus))
    score = None if failed else float(base and plus)
    empty = np.zeros(0, dtype=np.int32)
    return Episode(
        task_id=task_id,
        env="evalplus",
        split="test",
        group="",
        instruction="",
        attempt=0,
        seed=0,
        policy_version=0,
        sampling=GREEDY,
        token_ids=empty,
        loss_mask=empty.astype(np.bool_),
        logprobs=empty.astype(np.float32),
        turn_index=empty.astype(np.int16),
        prefix_len=0,
        outcome=Outcome(score, bool(score), Termination.SUBMITTED, checks),
    )


@pytest.mark.parametrize(
    ("samples", "correct", "k", "value"),
    [(10, 3, 1, 0.3), (5, 2, 3, 0.9), (10, 0, 10, 0.0), (10, 1, 10, 1.0), (200, 40, 100, 1.0)],
)
def test_golden_numbers(samples: int, correct: int, k: int, value: float) -> None:
    assert pass_at_k(samples, correct, k) == pytest.approx(value, abs=1e-9)


@given(st.integers(1, 8), st.data())
def test_it_is_the_share_of_draws_that_hold_a_correct_sample(n: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    draws = list(combinations(range(n), k))
    share = sum(any(i < correct for i in draw) for draw in draws) / len(draws)
    assert pass_at_k(n, correct, k) == pytest.approx(share)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0), (0, 0, 1)])
def test_undefined_numbers_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="undefined"):
        pass_at_k(n, c, k)


def test_base_and_plus_are_reported_over_all_tasks() -> None:
    played = [
        episode("a", True, True),
        episode("b", True, False),
        episode("b", False, False),
        episode("c", False, False),
        episode("c", True, True, failed=True),
    ]
    found = report(played, ["a", "b", "c"])
    assert found["base"] == {"pass@1": pytest.approx((1 + 0.5 + 0) / 3)}
    assert found["plus"] == {"pass@1": pytest.approx(1 / 3)}
    ten = report([episode("a", i < 1, i < 1) for i in range(10)], ["a"])
    assert ten["plus"] == {"pass@1": pytest.approx(0.1), "pass@10": 1.0}


def test_a_missing_task_is_refused() -> None:
    with pytest.raises(UsageError, match=r"1 of 2 tasks have no finished episode, e\.g\. 'b'"):
        report([episode("a", True, True), episode("b", True, True, failed=True)], ["a", "b"])
