"""Draws and their log-probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from lopd_gym.episode import GREEDY, Sampling
from lopd_gym.policy.sampler import draw

UNTRUNCATED = Sampling(temperature=1.0, top_p=1.0, top_k=0)


def by_transformers(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    scores = TemperatureLogitsWarper(sampling.temperature)(None, logits)
    if sampling.top_k:
        scores = TopKLogitsWarper(sampling.top_k)(None, scores)
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(None, scores)
    return scores.log_softmax(-1)


@pytest.mark.parametrize(
    "sampling",
    [
        UNTRUNCATED,
        Sampling(0.7, 0.95, 20),
        Sampling(1.3, 0.5, 0),
        Sampling(0.5, 1.0, 3),
        Sampling(1.0, 0.01, 0),
    ],
)
def test_draws_follow_the_distribution_of_transformers_warpers(sampling: Sampling):
    torch.manual_seed(0)
    logits = 2 * torch.randn(1, 40)
    expected = by_transformers(logits, sampling)[0]
    uniforms = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    ids, logprobs = draw(logits.expand(20_000, -1), uniforms, sampling)
    torch.testing.assert_close(logprobs, expected[ids], rtol=0, atol=1e-5)
    frequencies = torch.bincount(ids, minlength=40) / 20_000
    torch.testing.assert_close(frequencies, expected.exp(), rtol=0, atol=2e-4)


def test_greedy_takes_the_largest_and_reports_its_plain_logprob():
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    ids, logprobs = draw(logits, torch.zeros(1, dtype=torch.float64), GREEDY)
    assert ids.tolist() == [1]
    assert logprobs.item() == pytest.approx(2 - np.log(1 + np.exp(2) + np.exp(1)))


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=30), st.floats(0, 1, exclude_max=True))
def test_what_is_drawn_is_always_possible(values: list[float], uniform: float):
    logits = torch.tensor([values])
    for sampling in (UNTRUNCATED, Sampling(0.7, 0.9, 5)):
        ids, logprobs = draw(logits, torch.tensor([uniform], dtype=torch.float64), sampling)
        assert 0 <= ids.item() < len(values)
        assert -np.inf < logprobs.item() <= 0


def test_a_draw_does_not_depend_on_batch_mates():
    torch.manual_seed(1)
    logits, uniforms = torch.randn(6, 50), torch.rand(6, dtype=torch.float64)
    together = draw(logits, uniforms, Sampling())[0]
    alone = [draw(logits[i : i + 1], uniforms[i : i + 1], Sampling())[0].item() for i in range(6)]
    assert together.tolist() == alone
