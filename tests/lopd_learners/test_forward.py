"""Rows through a model: the shift, padding, latents, chunks, and what is computed again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners import forward
from lopd_learners.forward import (
    TokenRow,
    check_head,
    log_probs_at,
    micro_batches,
    supervised_states,
    top_support,
)
from lopd_learners.optim import clipped_step
from torch import Tensor, nn

from lopd_gym.errors import UsageError
from tests.lopd_gym.policy.models import make_model


def row(ids: list[int], supervised: list[int], **given: Any) -> TokenRow:
    mask = np.zeros(len(ids), bool)
    mask[supervised] = True
    return TokenRow(np.array(ids, np.int32), mask, **given)


class Successor(nn.Module):
    """A model whose next token is surely the current one plus one."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.eye(vocabulary))
        self.head = nn.Linear(vocabulary, vocabulary, bias=False)
        self.head.weight.data = 50 * torch.eye(vocabulary).roll(1, 0)
        self.layers: list[nn.Module] = []

    @property
    def base_model(self) -> Any:
        return lambda inputs_embeds, use_cache: SimpleNamespace(last_hidden_state=inputs_embeds)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.head


def test_the_state_before_a_token_predicts_it() -> None:
    model = Successor(10)
    right = row([4, 7, 8, 9, 2, 3], [2, 3, 5])  # 8 after 7, 9 after 8, 3 after 2
    wrong = row([4, 7, 8, 9, 2, 3], [1, 4])  # neither follows from the token before
    states = supervised_states(model, [right, wrong])
    assert states.argmax(-1).tolist() == [7, 8, 2, 4, 9]
    targets = torch.cat([right.targets, wrong.targets])
    assert targets.tolist() == [8, 9, 3, 7, 2]
    log_probs = log_probs_at(model, states, targets[:, None])[:, 0]
    assert log_probs[:3].abs().max() < 1e-6
    assert log_probs[3:].max() < -40


def test_padding_changes_nothing() -> None:
    model = make_model("qwen3")
    rows = [row([5, 6, 7, 8, 9, 10, 11], [3, 6]), row([3, 9, 2], [1, 2])]
    together = supervised_states(model, rows)
    alone = torch.cat([supervised_states(model, [r]) for r in rows])
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("family", ["qwen3", "llama", "olmo3"])
def test_states_and_head_are_the_models_own_logits(family: str) -> None:
    model = make_model(family)
    ids = list(range(20, 40))
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        states = supervised_states(model, [row(ids, [4, 19])])
        found = log_probs_at(model, states, torch.arange(320).expand(2, -1))
    assert torch.allclose(found, expected[[3, 18]], atol=1e-5)
    check_head(model)


def test_models_that_change_their_logits_are_refused() -> None:
    model = make_model("qwen3")
    plain = model.forward
    model.forward = lambda **given: SimpleNamespace(logits=plain(**given).logits.tanh())
    with pytest.raises(UsageError, match="Qwen3ForCausalLM"):
        check_head(model)


def gradients(model: nn.Module, rows: list[TokenRow], recompute: bool) -> dict[str, Tensor]:
    model.requires_grad_(True).zero_grad(set_to_none=True)
    states = supervised_states(model, rows, recompute=recompute)
    targets = torch.cat([r.targets for r in rows])
    log_probs_at(model, states, targets[:, None]).sum().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_chunks_and_recomputation_leave_gradients_as_they_are(monkeypatch: Any) -> None:
    model = make_model("qwen3")
    rows = [row([5, 6, 7, 8, 9], [2, 3, 4]), row([1, 2, 3], [1, 2])]
    expected = gradients(model, rows, recompute=False)
    assert len(expected) == len(list(model.parameters()))
    monkeypatch.setattr(forward, "_CHUNK_ELEMENTS", 2 * 320)  # two positions at a time
    for name, found in gradients(model, rows, recompute=True).items():
        assert torch.allclose(found, expected[name], atol=1e-4, rtol=1e-4), name
    assert all("forward" not in vars(block) for block in model.model.layers)


def test_the_head_in_chunks_is_a_plain_log_softmax(monkeypatch: Any) -> None:
    monkeypatch.setattr(forward, "_CHUNK_ELEMENTS", 3 * 320)  # 10 positions in chunks of 3
    model = make_model("qwen3").requires_grad_(True)
    head = model.get_output_embeddings()
    states, ids = torch.randn(10, 32, requires_grad=True), torch.randint(320, (10, 4))
    weight = torch.randn(10, 4)
    found = log_probs_at(model, states, ids)
    expected = head(states).log_softmax(-1).gather(-1, ids)
    assert torch.allclose(found, expected, atol=1e-5)
    wanted = [states, head.weight]
    ours, plain = (
        torch.autograd.grad((value * weight).sum(), wanted) for value in (found, expected)
    )
    for one, other in zip(ours, plain, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_gradients_do_not_depend_on_micro_batches() -> None:
    model = make_model("qwen3").requires_grad_(True)
    lengths = [9, 4, 13, 6, 4]
    rows = [row(list(range(3, 3 + n)), [2, n - 1]) for n in lengths]

    def gradients_of(max_tokens: int) -> tuple[int, dict[str, Tensor]]:
        model.zero_grad(set_to_none=True)
        groups = list(micro_batches(lengths, max_tokens))
        for group in groups:
            part = [rows[index] for index in group]
            targets = torch.cat([r.targets for r in part])[:, None]
            log_probs = log_probs_at(model, supervised_states(model, part), targets)
            (log_probs.sum() / (100 * len(rows))).backward()  # gradients of about 0.1
        return len(groups), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}

    (one, expected), (many, found), (middle, between) = map(gradients_of, (10_000, 1, 20))
    assert (one, many) == (1, 5)
    assert 1 < middle < 5
    assert max(g.abs().max().item() for g in expected.values()) > 0.01
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, atol=1e-6, rtol=0), name
        assert torch.allclose(between[name], gradient, atol=1e-6, rtol=0), name


def test_nothing_of_tokens_times_vocabulary_is_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(forward, "_CHUNK_ELEMENTS", 320)
    model = make_model("qwen3").requires_grad_(True)
    states = torch.randn(50, 32, requires_grad=True)
    kept: list[int] = []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda t: (kept.append(t.numel()), t)[1], lambda t: t
    )
    with hooks:
        log_probs_at(model, states, torch.zeros(50, 3, dtype=torch.long))
    assert max(kept, default=0) < 320


def test_recomputed_blocks_keep_less() -> None:
    model = make_model("qwen3").requires_grad_(True)

    def kept(recompute: bool) -> int:
        sizes: list[int] = []
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda t: (sizes.append(t.numel()), t)[1], lambda t: t
        )
        with hooks:
            supervised_states(model, [row(list(range(100)), [99])], recompute=recompute)
        return sum(sizes)

    assert 4 * kept(recompute=True) < kept(recompute=False)


def test_latents_take_the_place_of_embeddings() -> None:
    model = make_model("qwen3")
    ids = [5, 6, 40, 41, 42, 7, 8, 9]
    with torch.no_grad():
        latents = model.get_input_embeddings()(torch.tensor(ids[2:5]))
        plain = supervised_states(model, [row(ids, [6, 7])])
        placed = row([5, 6, 0, 0, 0, 7, 8, 9], [6, 7], latents=latents, latent_start=2)
        other = row([3, 2, 1], [1])  # a batch-mate without latents
        injected = supervised_states(model, [placed, other])
    assert torch.allclose(injected[:2], plain, atol=1e-6)
    wanted = torch.tensor(ids[6:])[:, None]
    lead = log_probs_at(model, injected[:2], wanted) - log_probs_at(model, plain, wanted)
    assert lead.abs().max() < 1e-5
    assert torch.equal(
        model.get_output_embeddings()(injected[:2]).argmax(-1),
        model.get_output_embeddings()(plain).argmax(-1),
    )


def test_rows_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing predicts token 0"):
        row([1, 2], [0])
    good = row([1, 0, 0, 2], [3], latent_start=1)
    replace(good, latents=torch.zeros(2, 8))
    for start, count in ((1, 3), (0, 2), (2, 2), (3, 2)):
        with pytest.raises(ValueError, match="placeholders"):
            replace(good, latents=torch.zeros(count, 8), latent_start=start)


def test_the_support_of_a_teacher() -> None:
    model, states = make_model("qwen3"), torch.randn(7, 32)
    sampled = torch.arange(7)
    full = model.get_output_embeddings()(states).log_softmax(-1)
    found = top_support(model, states, sampled, 5)
    assert torch.equal(found.ids, full.topk(5).indices)
    assert torch.allclose(found.log_probs[:, :-1], full.topk(5).values)
    assert torch.allclose(found.log_probs[:, -1], full[torch.arange(7), sampled])
    entropy = torch.distributions.Categorical(logits=full).entropy()
    assert torch.allclose(found.entropy, entropy, atol=1e-5)
    everything = top_support(model, states, sampled, 999)
    assert everything.ids.shape == (7, 320)


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 100))
def test_micro_batches_hold_every_row_once_and_not_too_many(lengths: list[int], most: int) -> None:
    groups = list(micro_batches(lengths, most))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= most


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimiser = torch.optim.AdamW([parameter], lr=0.1)
    parameter.grad = torch.tensor([float("nan"), 1.0])
    assert not np.isfinite(clipped_step(optimiser, 1.0))
    assert parameter.tolist() == [1, 1]
    assert parameter.grad is None
    assert not optimiser.state
    parameter.grad = torch.tensor([3.0, 4.0])
    assert clipped_step(optimiser, 1.0) == pytest.approx(5.0)
    assert parameter.max() < 1
