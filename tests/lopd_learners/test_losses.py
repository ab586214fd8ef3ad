"""The losses against golden numbers, computed independently in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.losses import (
    dual_step,
    forward_kl,
    jensen_shannon,
    outcome_sign,
    reverse_kl,
    with_tail,
)
from torch import Tensor

P = torch.tensor([0.50, 0.25, 0.15, 0.07, 0.03], dtype=torch.float64).log()
Q = torch.tensor([0.12, 0.52, 0.21, 0.05, 0.10], dtype=torch.float64).log()
TEACHERS, STUDENTS = torch.tensor([1, 2]), torch.tensor([0, 1])


def test_divergences_over_the_whole_vocabulary() -> None:
    assert reverse_kl(P, Q).item() == pytest.approx(0.467429, abs=1e-6)
    assert forward_kl(P, Q).item() == pytest.approx(0.383810, abs=1e-6)
    assert jensen_shannon(P, Q, 0.5).item() == pytest.approx(0.100034, abs=1e-6)
    assert jensen_shannon(P, Q, 0).item() == forward_kl(P, Q).item()
    assert jensen_shannon(P, Q, 1).item() == reverse_kl(P, Q).item()


@pytest.mark.parametrize(
    ("support", "values"),
    [(TEACHERS, (0.245542, 0.235893, 0.058781)), (STUDENTS, (0.439305, 0.340849, 0.091730))],
)
def test_divergences_on_a_support_with_a_tail(
    support: Tensor, values: tuple[float, float, float]
) -> None:
    p, q = with_tail(P[support]), with_tail(Q[support])
    found = (reverse_kl(p, q), forward_kl(p, q), jensen_shannon(p, q, 0.5))
    assert [x.item() for x in found] == pytest.approx(values, abs=1e-6)


@pytest.mark.parametrize(
    ("support", "gradient"),
    [
        (None, (0.479844, -0.299949, -0.120585, -0.009167, -0.050142)),
        (TEACHERS, (0.276483, -0.244477, -0.087302, 0.038708, 0.016589)),
    ],
)
def test_gradients_at_the_students_logits(
    support: Tensor | None, gradient: tuple[float, ...]
) -> None:
    logits = P.clone().requires_grad_()
    p = logits.log_softmax(-1)
    if support is None:
        loss = reverse_kl(p, Q)
    else:
        loss = reverse_kl(with_tail(p[support]), with_tail(Q[support]))
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == pytest.approx(gradient, abs=1e-6)


def test_equal_distributions_give_no_loss_and_no_gradient() -> None:
    logits = P.clone().requires_grad_()
    loss = reverse_kl(with_tail(logits.log_softmax(-1)[TEACHERS]), with_tail(P[TEACHERS]))
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert logits.grad is not None
    assert logits.grad.abs().max().item() < 1e-12


def test_a_tiny_tail_is_exact_in_float32() -> None:
    for mass in (1e-7, 1e-8):
        tail = with_tail(torch.tensor([math.log1p(-mass)]))[-1].exp().item()
        assert 1.0e-7 * 0.99 <= tail <= 1.2e-7


@pytest.mark.parametrize(
    ("beta", "delta", "after"),
    [(0, -0.03, 0.04), (0, 0.2, 0), (0.4, 0.05, 0.4), (0.4, -0.1, 0.475)],
)
def test_the_dual_step(beta: float, delta: float, after: float) -> None:
    assert dual_step(beta, delta, 0.05, 0.5, None) == pytest.approx(after)
    assert dual_step(beta, delta, 0.05, 0.5, 0.1) == pytest.approx(min(after, 0.1))


def test_outcomes_are_signed() -> None:
    assert outcome_sign(torch.tensor([0.0, 0.5, 1.0])).tolist() == [-1, 0, 1]


logits = st.lists(st.floats(-8, 8), min_size=6, max_size=6)


@given(logits, logits, st.integers(1, 5))
def test_a_tail_makes_a_lower_bound_that_is_never_negative(
    first: list[float], second: list[float], size: int
) -> None:
    p = torch.tensor(first, dtype=torch.float64).log_softmax(-1)
    q = torch.tensor(second, dtype=torch.float64).log_softmax(-1)
    coarse = reverse_kl(with_tail(p[:size]), with_tail(q[:size])).item()
    assert -1e-9 <= coarse <= reverse_kl(p, q).item() + 1e-5
