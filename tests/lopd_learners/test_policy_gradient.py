"""Advantages, the clipped surrogate and sampler weights: golden numbers and properties."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.policy_gradient import (
    clipped_surrogate,
    group_advantages,
    overlong_penalty,
    ratio,
    sampler_weights,
)

scores = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("given_scores", "eps", "expected"),
    [
        ([1, 0, 0, 1], 1e-6, [0.866024, -0.866024, -0.866024, 0.866024]),
        ([1, 0, 0, 1], 1e-4, [0.865875, -0.865875, -0.865875, 0.865875]),
        ([0.75, 0.5, 0.5, 0.25], 1e-6, [1.224739, 0, 0, -1.224739]),
    ],
)
def test_golden_advantages(given_scores: list[float], eps: float, expected: list[float]) -> None:
    values = torch.tensor(given_scores, dtype=torch.float64)
    found = group_advantages(values, ["a"] * 4, "group", eps)
    assert found.tolist() == pytest.approx(expected, abs=6e-7)


def test_scales_of_advantages() -> None:
    values, groups = torch.tensor([1.0, 0.0, 0.5, 0.25]), ["a", "a", "b", "b"]
    none = group_advantages(values, groups, "none")
    assert none.tolist() == [0.5, -0.5, 0.125, -0.125]  # Dr. GRPO
    batch = group_advantages(values, groups, "batch")
    assert batch.tolist() == pytest.approx((none / (values.std() + 1e-6)).tolist())
    assert group_advantages(values, groups, "group").abs().tolist() == pytest.approx(
        [0.7071] * 4, 1e-4
    )


def test_a_lone_episode_has_no_advantage() -> None:
    assert group_advantages(torch.tensor([1.0, 1.0, 0.0]), ["a", "b", "b"])[0] == 0


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("score", [0.0, 0.1, 1 / 3, 1.0])
def test_equal_scores_have_exactly_no_advantage(scale: str, score: float) -> None:
    found = group_advantages(torch.full((7,), score), ["a"] * 7, scale)
    assert found.tolist() == [0.0] * 7


@given(scores, st.data(), st.sampled_from(["group", "batch", "none"]))
def test_advantages_of_a_group_sum_to_zero_and_order_does_not_matter(
    values: list[float], data: st.DataObject, scale: str
) -> None:
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(values), max_size=len(values)))
    found = group_advantages(torch.tensor(values), groups, scale)
    assert found.isfinite().all()
    for group in set(groups):
        mine = [i for i, g in enumerate(groups) if g == group]
        assert found[mine].sum().abs() < 1e-4
        order = sorted(mine, key=lambda i: values[i])
        assert found[order].tolist() == sorted(found[mine].tolist())
    shuffle = data.draw(st.permutations(range(len(values))))
    again = group_advantages(
        torch.tensor([values[i] for i in shuffle]), [groups[i] for i in shuffle], scale
    )
    assert torch.allclose(again, found[list(shuffle)], atol=1e-5)


def test_golden_overlong_penalties() -> None:
    """DAPO's own numbers: an answer of 20,480 tokens, of which the last 4,096 cost."""
    lengths = torch.tensor([0, 16_384, 17_408, 18_432, 20_480, 30_000])
    assert overlong_penalty(lengths, 16_384, 4_096).tolist() == [0, 0, 0.25, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("ratio_is", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.5, 2.0, -2.56),  # clipped at 1.28
        (0.5, 2.0, -1.0),  # a fall is no gain for a good token: not clipped
        (0.5, -2.0, 1.6),  # clipped at 0.8
        (1.5, -2.0, 3.0),
        (9.0, -2.0, 6.0),  # dual clip: 3 times the advantage
        (9.0, 2.0, -2.56),
    ],
)
def test_the_clipped_surrogate(ratio_is: float, advantage: float, expected: float) -> None:
    found = clipped_surrogate(torch.tensor(ratio_is), torch.tensor(advantage), 0.2, 0.28, 3.0)
    assert found.item() == pytest.approx(expected)


def test_without_a_dual_clip_a_bad_tokens_loss_has_no_bound() -> None:
    ratios = torch.tensor(9.0, requires_grad=True)
    clipped_surrogate(ratios, torch.tensor(-2.0), 0.2, 0.2).backward()
    assert ratios.grad == 2.0
    bounded = torch.tensor(9.0, requires_grad=True)
    clipped_surrogate(bounded, torch.tensor(-2.0), 0.2, 0.2, 3.0).backward()
    assert bounded.grad == 0.0


@given(st.floats(0.01, 50), st.floats(-3, 3), st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_clipping_never_lets_a_step_gain_more(
    ratio_is: float, advantage: float, low: float, high: float
) -> None:
    ratios, advantages = torch.tensor(ratio_is), torch.tensor(advantage)
    clipped = clipped_surrogate(ratios, advantages, low, high)
    assert clipped >= -ratios * advantages - 1e-5  # a pessimistic bound
    bounded = clipped_surrogate(ratios, advantages, low, high, 3.0)
    assert bounded <= clipped
    assert bounded <= 3 * abs(advantage) + 1e-5


def test_the_gradient_at_a_ratio_of_1_is_that_of_a_policy_gradient() -> None:
    p_log = torch.tensor([-1.0, -2.0], requires_grad=True)
    advantages = torch.tensor([0.5, -0.25])
    clipped_surrogate(ratio(p_log, p_log.detach()), advantages, 0.2, 0.2).sum().backward()
    assert p_log.grad is not None
    assert p_log.grad.tolist() == [-0.5, 0.25]


def test_ratios_do_not_overflow() -> None:
    found = ratio(torch.tensor([0.0, -200.0]), torch.tensor([-200.0, 0.0]))
    assert found.tolist() == pytest.approx([math.exp(20), math.exp(-20)])


P_LOG, RECORDED = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-2.0, -1.0, -0.5])


@pytest.mark.parametrize(
    ("kind", "cap", "expected"),
    [
        ("none", 2.0, [1, 1, 1]),
        ("token", 2.0, [2.0, math.exp(-1), 1]),
        ("token", 3.0, [math.e, math.exp(-1), 1]),
        ("sequence", 2.0, [1, 1, 1]),  # 1 - 1 = 0 over the first episode's two tokens
        ("sequence", 0.5, [0, 0, 0]),
    ],
)
def test_sampler_weights(kind: str, cap: float, expected: list[float]) -> None:
    found = sampler_weights(P_LOG, RECORDED, [2, 1], kind, cap)
    assert found.tolist() == pytest.approx(expected)


def test_a_sequence_above_the_cap_is_dropped_and_no_other() -> None:
    found = sampler_weights(
        torch.zeros(5), torch.tensor([-0.6, -0.6, 0, -0.1, 0]), [2, 3], "sequence", 3
    )
    assert found.tolist() == pytest.approx([0, 0] + [math.exp(0.1)] * 3)


@pytest.mark.parametrize("kind", ["token", "sequence"])
def test_equal_samplers_weigh_1_and_no_gradient_flows(kind: str) -> None:
    p_log = P_LOG.clone().requires_grad_(True)
    found = sampler_weights(p_log, P_LOG, [1, 2], kind, 2.0)
    assert found.tolist() == [1, 1, 1]
    assert not found.requires_grad


@given(st.lists(st.floats(-300, 0), min_size=2, max_size=6), st.sampled_from(["token", "sequence"]))
def test_sampler_weights_stay_between_0_and_the_cap(values: list[float], kind: str) -> None:
    found = sampler_weights(
        torch.tensor(values), torch.zeros(len(values)), [1, len(values) - 1], kind, 2.0
    )
    other = sampler_weights(
        torch.zeros(len(values)), torch.tensor(values), [1, len(values) - 1], kind, 2.0
    )
    for weights in (found, other):
        assert ((weights >= 0) & (weights <= 2.0)).all()
