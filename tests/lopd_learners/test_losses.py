"""Golden numbers, computed in float64 by hand-written formulas independent of this code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.losses import (
    clipped_forward_kl,
    composer_loss,
    dual_step,
    forward_kl,
    jensen_shannon,
    outcome_sign,
    reverse_kl,
    sampled_reverse_kl,
    weighted_k3,
    with_tail,
)
from torch import Tensor

P = torch.tensor([0.50, 0.25, 0.15, 0.07, 0.03], dtype=torch.float64)
Q = torch.tensor([0.12, 0.52, 0.21, 0.05, 0.10], dtype=torch.float64)
TEACHER_TOP, STUDENT_TOP = [1, 2], [0, 1]
FULL_GRADIENT = [0.479844, -0.299949, -0.120585, -0.009167, -0.050142]


def close(value: Tensor | float, expected: float | list[float]) -> bool:
    return torch.allclose(
        torch.as_tensor(value, dtype=torch.float64),
        torch.tensor(expected, dtype=torch.float64),
        atol=6e-7,
        rtol=0,
    )


def gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Gradient of a loss of the student's log-probabilities with respect to its logits."""
    logits = P.log().requires_grad_(True)
    loss(logits.log_softmax(-1)).backward()
    assert logits.grad is not None
    return logits.grad


def jsd(p_log: Tensor, q_log: Tensor) -> Tensor:
    return jensen_shannon(p_log, q_log, 0.5)


@pytest.mark.parametrize(
    ("support", "values"),
    [
        (None, (0.467429, 0.383810, 0.100034)),
        (TEACHER_TOP, (0.245542, 0.235893, 0.058781)),
        (STUDENT_TOP, (0.439305, 0.340849, 0.091730)),
    ],
)
def test_divergences(support: list[int] | None, values: tuple[float, float, float]) -> None:
    p, q = P.log(), Q.log()
    if support is not None:
        p, q = with_tail(p[support]), with_tail(q[support])
    for divergence, value in zip((reverse_kl, forward_kl, jsd), values, strict=True):
        assert close(divergence(p, q), value)


@pytest.mark.parametrize(
    ("support", "truncated", "renormalised"),
    [(TEACHER_TOP, -0.233563, 0.017673), (STUDENT_TOP, 0.530466, 0.548683)],
)
def test_supports_without_a_tail(support: list[int], truncated: float, renormalised: float) -> None:
    p, q = P.log()[support], Q.log()[support]
    assert close(reverse_kl(p, q), truncated)  # negative for the teacher's: no divergence
    assert close(reverse_kl(p.log_softmax(-1), q.log_softmax(-1)), renormalised)


def test_weights_at_the_ends_are_the_two_kls() -> None:
    p, q = P.log(), Q.log()
    assert torch.equal(jensen_shannon(p, q, 0.0), forward_kl(p, q))
    assert torch.equal(jensen_shannon(p, q, 1.0), reverse_kl(p, q))
    assert close(jensen_shannon(p, q, 0.25), float(jensen_shannon(q, p, 0.75)))


def on_teacher_top(p_log: Tensor) -> Tensor:
    return reverse_kl(with_tail(p_log[TEACHER_TOP]), with_tail(Q.log()[TEACHER_TOP]))


def naive(p_log: Tensor) -> Tensor:
    return reverse_kl(p_log[TEACHER_TOP], Q.log()[TEACHER_TOP])


def stopped(p_log: Tensor) -> Tensor:
    top = p_log[TEACHER_TOP]
    return (top.exp() * (top - Q.log()[TEACHER_TOP]).detach()).sum()


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda p: reverse_kl(p, Q.log()), FULL_GRADIENT),
        (lambda p: forward_kl(p, Q.log()), [0.38, -0.27, -0.06, 0.02, -0.07]),
        (on_teacher_top, [0.276483, -0.244477, -0.087302, 0.038708, 0.016589]),
        (stopped, [0.116781, -0.124701, -0.015436, 0.016349, 0.007007]),
        (naive, [-0.083219, 0.025299, 0.074564, -0.011651, -0.004993]),
    ],
)
def test_gradients(loss: Callable[[Tensor], Tensor], expected: list[float]) -> None:
    assert close(gradient(loss), expected)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [("k1", [0.0] * 5), ("k2", FULL_GRADIENT), ("k3", [0.38, -0.27, -0.06, 0.02, -0.07])],
)
def test_expected_gradients_of_sampled_estimators(estimator: str, expected: list[float]) -> None:
    found = gradient(lambda p: (P * sampled_reverse_kl(p, Q.log(), estimator)).sum())
    assert close(found, expected)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_sampled_estimators_are_unbiased(estimator: str) -> None:
    assert close((P * sampled_reverse_kl(P.log(), Q.log(), estimator)).sum(), 0.467429)


OLD = torch.tensor([0.3, 0.3, 0.2, 0.1, 0.1], dtype=torch.float64)


def off_policy(p_log: Tensor) -> Tensor:
    """Expected weighted k3 of tokens that OLD drew."""
    return (OLD * weighted_k3(p_log, Q.log(), (p_log - OLD.log()).exp())).sum()


def test_k3_weighted_by_a_ratio_with_gradient_has_the_reverse_kls() -> None:
    assert close(off_policy(P.log()), 0.467429)
    assert close(gradient(off_policy), FULL_GRADIENT)


def test_a_detached_ratio_has_not() -> None:
    def plain(p_log: Tensor) -> Tensor:
        ratios = (P.log() - OLD.log()).exp()
        return (OLD * ratios * sampled_reverse_kl(p_log, Q.log(), "k3")).sum()

    assert close(gradient(plain), [0.38, -0.27, -0.06, 0.02, -0.07])  # the forward KL's


def test_weighted_k3_is_the_published_formula_where_nothing_is_clamped() -> None:
    def published(p_log: Tensor) -> Tensor:
        ratios = (p_log - OLD.log()).exp()
        return (OLD * ratios * sampled_reverse_kl(p_log, Q.log(), "k3")).sum()

    assert close(published(P.log()), float(off_policy(P.log())))
    assert close(gradient(published), gradient(off_policy).tolist())


@given(st.floats(-60, 0), st.floats(-60, 0))
def test_weighted_k3_pulls_a_token_to_its_teacher_however_far_it_is(
    mine: float, its: float
) -> None:
    p_log = torch.tensor(mine, requires_grad=True)
    loss = weighted_k3(p_log, torch.tensor(its), (p_log - p_log.detach()).exp())
    loss.backward()
    assert p_log.grad is not None
    assert 0 <= loss.item() <= 10.0001  # where the teacher likes it more k3 would explode
    assert p_log.grad.item() == pytest.approx(max(-20, min(20, mine - its)), abs=1e-4)


def test_equal_distributions_have_no_loss_and_no_gradient() -> None:
    def with_itself(p_log: Tensor) -> Tensor:
        return reverse_kl(with_tail(p_log[TEACHER_TOP]), with_tail(P.log()[TEACHER_TOP]))

    assert with_itself(P.log()) == 0
    assert gradient(with_itself).abs().max() < 1e-15
    assert gradient(lambda p: reverse_kl(p[TEACHER_TOP], P.log()[TEACHER_TOP])).abs().max() > 0.1


def test_the_clip_bounds_each_entry_of_the_forward_kl_before_the_sum() -> None:
    entries = (Q * (Q.log() - P.log())).tolist()
    assert sum(entry > 0.05 for entry in entries) == 3
    assert min(entries) < -0.1  # stays as it is
    expected = sum(min(entry, 0.05) for entry in entries)
    assert close(clipped_forward_kl(P.log(), Q.log(), 0.05), expected)
    assert close(clipped_forward_kl(P.log(), Q.log(), 9.0), 0.383810)


def test_a_clipped_entry_has_no_gradient() -> None:
    log_probs = P.log().requires_grad_(True)
    clipped_forward_kl(log_probs, Q.log(), 0.05).backward()
    assert log_probs.grad is not None
    assert close(log_probs.grad, [-0.12, 0.0, 0.0, -0.05, 0.0])


@pytest.mark.parametrize(
    ("true", "ours", "by_subtraction"), [(1e-7, 1.19e-7, 6.0e-8), (1e-8, 1.0e-7, 0.0)]
)
def test_tails_that_float32_can_hardly_see(true: float, ours: float, by_subtraction: float) -> None:
    support = (torch.tensor([0.12, 0.52, 0.36], dtype=torch.float64) * (1 - true)).log().float()
    assert with_tail(support)[-1].exp().item() == pytest.approx(ours, rel=0.01)
    assert (1 - support.exp().sum()).item() == pytest.approx(by_subtraction, rel=0.01)


def test_a_support_that_holds_everything_stays_finite() -> None:
    logits = torch.tensor([80.0, 0.0, -80.0], requires_grad=True)
    found = with_tail(logits.log_softmax(-1))
    reverse_kl(found, torch.tensor([0.2, 0.3, 0.4, 0.1]).log()).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    ("beta", "delta", "expected"),
    [(0, -0.03, 0.04), (0, 0.2, 0), (0.4, 0.05, 0.4), (0.4, -0.1, 0.475)],
)
def test_the_dual_variable(beta: float, delta: float, expected: float) -> None:
    assert dual_step(beta, delta, 0.05, 0.5, None) == pytest.approx(expected, abs=1e-12)
    assert dual_step(beta, delta, 0.05, 0.5, 0.4) == pytest.approx(min(expected, 0.4), abs=1e-12)


def test_the_composers_loss() -> None:
    sign = outcome_sign(torch.tensor([1.0, 0.5, 0.0]))
    assert sign.tolist() == [1, 0, -1]
    kl, lead = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.25, 9.0, 0.25])
    anchor = torch.tensor([0.0, 1.0, 2.0])
    found = composer_loss(kl, sign * lead, anchor, beta=2.0, margin=0.05, anchor_weight=0.2)
    assert found.tolist() == pytest.approx([0.1 - 0.4, 0.2 + 0.1 + 0.2, 0.3 + 0.6 + 0.4])


logits = st.lists(st.floats(-8, 8), min_size=6, max_size=6)


@given(logits, logits, st.integers(1, 5))
def test_a_tail_makes_a_lower_bound_that_is_never_negative(
    first: list[float], second: list[float], size: int
) -> None:
    p = torch.tensor(first, dtype=torch.float64).log_softmax(-1)
    q = torch.tensor(second, dtype=torch.float64).log_softmax(-1)
    coarse = reverse_kl(with_tail(p[:size]), with_tail(q[:size])).item()
    assert -1e-9 <= coarse <= reverse_kl(p, q).item() + 1e-5


@given(logits, logits, st.floats(0.01, 0.99) | st.sampled_from([0.0, 1.0]))
def test_divergences_are_never_negative_and_zero_at_equality(
    first: list[float], second: list[float], weight: float
) -> None:
    p = torch.tensor(first, dtype=torch.float64).log_softmax(-1)
    q = torch.tensor(second, dtype=torch.float64).log_softmax(-1)
    for divergence in (reverse_kl, forward_kl, lambda a, b: jensen_shannon(a, b, weight)):
        assert divergence(p, q) >= -1e-12
        assert abs(divergence(p, p)) <= 1e-12
    if 0 < weight < 1:
        assert jensen_shannon(p, q, weight) <= 0.693148  # ln 2
        mirrored = jensen_shannon(q, p, 1 - weight)
        assert abs(jensen_shannon(p, q, weight) - mirrored) < 1e-9
