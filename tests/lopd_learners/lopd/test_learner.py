"""One LOPD step: what moves, what stays, and that numbers do not depend on how they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lopd_learners.forward import log_probs_at, supervised_states
from lopd_learners.lopd import LOPD
from lopd_learners.lopd.example import Example, in_parts, latents_of, make_examples, teacher_states
from lopd_learners.losses import reverse_kl, with_tail
from lopd_learners.optim import clipped_step
from torch import Tensor

from lopd_gym.bank import Bank
from lopd_gym.chat import get_format
from lopd_gym.episode import Episode
from lopd_gym.policy.backbone import Backbone, StudentConfig
from tests.lopd_gym.policy.models import make_backbone, make_model, make_tokenizer
from tests.lopd_learners.lopd.setting import make_episode, make_learner, nothing

Make = Callable[..., LOPD]


@pytest.fixture
def make(bank: Bank, tmp_path: Path) -> Make:
    def build(backbone: Backbone | None = None, **options: Any) -> LOPD:
        return make_learner(bank, tmp_path, backbone, **options)

    return build


def episodes_for(
    learner: LOPD, scores: tuple[float | None, ...] = (1.0, 0.0, 1.0, 0.25)
) -> list[Episode]:
    return [make_episode(learner.context.backbone, n, score) for n, score in enumerate(scores)]


def examples_for(learner: LOPD, episodes: list[Episode]) -> list[Example]:
    backbone = learner.context.backbone
    return make_examples(episodes, backbone, learner.retriever, learner.config)


def weights(learner: LOPD) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor]]:
    """Copies of student, composer and base."""
    backbone = learner.context.backbone
    base = {n: t.clone() for n, t in backbone.base.state_dict().items()}
    composer = {n: t.clone() for n, t in learner.composer.state_dict().items()}
    return backbone.student_state(), composer, base


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one | other)


def largest_change(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max((one[name] - other[name]).abs().max().item() for name in one)


# -- who gets a gradient -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("recompute", [False, True])
def test_each_loss_has_a_gradient_on_its_own_weights_only(
    make: Make, kind: str, recompute: bool, monkeypatch: Any
) -> None:
    learner = make(make_backbone(kind=kind), beta=1.0, gradient_checkpointing=recompute)
    student = learner.context.backbone.student_parameters()
    composer = list(learner.composer.parameters())
    parts, seen = (student, composer), []

    def look(optimiser: torch.optim.Optimizer, max_norm: float) -> float:
        seen.append([sum(p.grad is not None and p.grad.any() for p in part) for part in parts])
        optimiser.zero_grad(set_to_none=True)
        return 1.0

    monkeypatch.setattr("lopd_learners.lopd.learner.clipped_step", look)
    learner.update(episodes_for(learner))
    (by_student, none), (nobody, by_composer) = seen
    assert (none, nobody) == (0, 0)
    assert by_student > 0
    # The adapter's second matrices begin as 0, so its first ones have no gradient yet.
    assert by_composer == len(composer) - len(learner.composer.lora) // 2
    assert all(p.grad is None for p in learner.context.backbone.base.parameters())


def test_one_step_moves_student_and_composer_and_never_the_base(make: Make) -> None:
    learner = make()
    before = weights(learner)
    metrics = learner.update(episodes_for(learner))
    after = weights(learner)
    assert not same(before[0], after[0])
    assert not same(before[1], after[1])
    assert same(before[2], after[2])
    assert all(p.grad is None for p in learner._cold.parameters())
    assert metrics["skipped"] == 0
    assert learner.context.backbone.student_version == 1
    assert all(np.isfinite(value) for value in metrics.values())


def test_a_student_without_latents_starts_as_its_teacher(make: Make) -> None:
    learner = make()
    (example,) = examples_for(learner, episodes_for(learner, (1.0,)))
    base, student = learner.context.backbone.base, learner.context.backbone.student
    support = torch.randint(320, (example.tokens, 20))
    p_log, q_log = (
        log_probs_at(model, supervised_states(model, [example.student]), support)
        for model in (student, base)
    )
    loss = reverse_kl(with_tail(p_log), with_tail(q_log.detach())).sum()
    assert loss.item() < 1e-4
    loss.backward()
    gradients = [p.grad for p in learner.context.backbone.student_parameters()]
    assert max(g.abs().max().item() for g in gradients if g is not None) < 1e-4


def test_both_losses_are_the_students_kl_on_the_teachers_top_tokens_and_a_tail(
    make: Make,
) -> None:
    learner = make(support=3, latents=64, beta_rate=0.0)
    backbone, config = learner.context.backbone, learner.config
    episodes = episodes_for(learner)
    means, tokens = [], []
    with torch.no_grad():
        for x in examples_for(learner, episodes):
            states = teacher_states(backbone, [x], latents_of(learner.composer, [x]), config)
            q = backbone.base.get_output_embeddings()(states).softmax(-1)
            states = supervised_states(backbone.student, [x.student])
            p = backbone.student.get_output_embeddings()(states).softmax(-1)
            top = q.argsort(-1, descending=True)[:, :3]
            p, q = p.gather(-1, top), q.gather(-1, top)
            p, q = (torch.cat([t, 1 - t.sum(-1, keepdim=True)], -1) for t in (p, q))
            means.append((p * (p / q).log()).sum(-1).mean().item())
            tokens.append(x.tokens)
    metrics = learner.update(episodes)
    assert metrics["loss_student"] == pytest.approx(np.average(means, weights=tokens), rel=1e-3)
    assert metrics["kl_composer"] == pytest.approx(np.mean(means), rel=1e-3)
    assert metrics["loss_composer"] == metrics["kl_composer"]


# -- the composer's loss -------------------------------------------------------------------------


def teacher_log_probs(learner: LOPD, examples: list[Example]) -> list[float]:
    """The teacher's mean log-probability of the sampled tokens of each episode."""
    backbone, config = learner.context.backbone, learner.config
    found = []
    with torch.no_grad():
        for x in examples:
            states = teacher_states(backbone, [x], latents_of(learner.composer, [x]), config)
            log_probs = log_probs_at(backbone.base, states, x.student.targets[:, None])
            found.append(log_probs.mean().item())
    return found


@pytest.mark.parametrize(("score", "direction"), [(1.0, 1), (0.0, -1)])
def test_the_margin_moves_the_teacher_towards_successes_and_away_from_failures(
    make: Make, score: float, direction: int
) -> None:
    learner = make(beta=100.0, anchor=0.0, composer_lr=1e-4)  # the margin outweighs the rest
    episodes = episodes_for(learner, (score, score))
    examples = examples_for(learner, episodes)
    before = teacher_log_probs(learner, examples)
    learner.update(episodes)
    after = teacher_log_probs(learner, examples)
    for old, new in zip(before, after, strict=True):
        assert direction * (new - old) > 1e-4


def test_half_a_success_says_nothing_about_the_margin(make: Make) -> None:
    learner = make(beta=100.0, margin=0.05)
    metrics = learner.update(episodes_for(learner, (0.5, 0.5)))
    assert metrics["delta"] == 0
    assert metrics["beta"] == pytest.approx(100 + 0.5 * 0.05)
    expected = metrics["kl_composer"] + 100 * 0.05
    assert metrics["loss_composer"] == pytest.approx(expected, rel=1e-5)


def test_the_anchor_is_exactly_zero_at_the_first_step_and_grows(make: Make) -> None:
    learner = make(micro_batch_tokens=200)
    learner.prepare([], nothing)
    episodes = episodes_for(learner)
    assert learner.update(episodes)["anchor"] == 0.0
    assert learner.update(episodes)["anchor"] > 0.0


def test_the_dual_variable_uses_the_delta_from_before_the_update(make: Make) -> None:
    learner = make(margin=0.3, beta_rate=0.5, beta=0.7)
    episodes = episodes_for(learner)
    examples = examples_for(learner, episodes)
    student = learner.context.backbone.student
    weighted, count = 0.0, 0
    for x, theirs in zip(examples, teacher_log_probs(learner, examples), strict=True):
        with torch.no_grad():
            states = supervised_states(student, [x.student])
            ours = log_probs_at(student, states, x.student.targets[:, None]).mean().item()
        assert x.episode.outcome.score is not None
        weighted += (2 * x.episode.outcome.score - 1) * (theirs - ours) * x.tokens
        count += x.tokens
    metrics = learner.update(episodes)
    assert metrics["delta"] == pytest.approx(weighted / count, abs=1e-5)
    assert metrics["beta"] == pytest.approx(max(0, 0.7 + 0.5 * (0.3 - metrics["delta"])), abs=1e-6)
    assert learner.beta == metrics["beta"]


def test_the_parts_of_delta_add_up(make: Make) -> None:
    learner = make()
    episodes = episodes_for(learner, (1.0, 0.0, 1.0))
    metrics = learner.update(episodes)
    tokens = [e.sampled_tokens for e in episodes]
    won, lost = tokens[0] + tokens[2], tokens[1]
    parts = won * metrics["delta_success"] + lost * metrics["delta_failure"]
    assert metrics["delta"] == pytest.approx(parts / (won + lost), abs=1e-6)


def test_the_safeguards(make: Make) -> None:
    learner = make(beta_cap=0.01, margin=5.0, delta_clamp=1e-3)
    metrics = learner.update(episodes_for(learner))
    assert metrics["beta"] == 0.01
    assert 0 < abs(metrics["delta"]) <= 1e-3 + 1e-9


# -- which episodes count ------------------------------------------------------------------------


def test_failed_episodes_change_nothing(make: Make) -> None:
    without, with_failed = make(), make()
    without.update(episodes_for(without, (1.0, 0.0)))
    scores = (1.0, 0.0, None)
    metrics = with_failed.update(episodes_for(with_failed, scores))
    assert metrics["trained_episodes"] == 2
    for one, other in zip(weights(without), weights(with_failed), strict=True):
        assert same(one, other)


@pytest.mark.parametrize("scores", [(), (None, None)])
def test_nothing_to_learn_from_is_no_error(make: Make, scores: tuple[None, ...]) -> None:
    learner = make(beta=0.3)
    before = weights(learner)
    metrics = learner.update(episodes_for(learner, scores))
    assert metrics == {"skipped": 1.0, "beta": 0.3, "trained_episodes": 0.0}
    assert all(same(a, b) for a, b in zip(before, weights(learner), strict=True))


def test_episodes_without_sampled_tokens_or_memory_are_left_out(make: Make) -> None:
    learner = make()
    good, silent, strange, long = episodes_for(learner)
    silent = replace(silent, loss_mask=np.zeros_like(silent.loss_mask))
    strange = replace(strange, env="another environment")
    examples = examples_for(learner, [good, silent, strange])
    assert [x.episode.task_id for x in examples] == [good.task_id]
    assert make(max_tokens=20).update([long])["trained_episodes"] == 0


def test_the_report(make: Make) -> None:
    learner = make(self_retrieval=True)
    episodes = episodes_for(learner)
    metrics = learner.update(episodes)
    lengths, sampled = (
        sum(len(e.token_ids) for e in episodes),
        sum(e.sampled_tokens for e in episodes),
    )
    assert metrics["trained_token_share"] == pytest.approx(sampled / lengths)
    assert metrics["self_hit_rate"] == 1.0
    assert metrics["score_std"] == pytest.approx(np.std([1.0, 0.0, 1.0, 0.25]))
    assert 0 < metrics["teacher_entropy"] < np.log(320)
    assert make().update(episodes)["self_hit_rate"] == 0.0
    assert {"loss_student", "grad_norm_student", "loss_composer", "kl_composer", "anchor"} <= set(
        metrics
    )
    assert {"grad_norm_composer", "beta", "delta", "delta_success", "delta_failure"} <= set(metrics)


# -- how numbers are made ------------------------------------------------------------------------


def test_micro_batches_and_checkpointing_do_not_change_the_result(make: Make) -> None:
    results = []
    for tokens, recompute in ((10_000, False), (1, False), (1_500, True)):
        learner = make(micro_batch_tokens=tokens, gradient_checkpointing=recompute, beta=0.5)
        episodes = episodes_for(learner)
        parts = in_parts(examples_for(learner, episodes), learner.config)
        metrics = [learner.update(episodes) for _ in range(2)][-1]
        results.append((len(parts), metrics, weights(learner)))
    assert [count for count, _, _ in results] == [1, 4, 2]
    _, expected, (student, composer, _) = results[0]
    for _, metrics, found in results[1:]:
        for name, value in metrics.items():
            assert value == pytest.approx(expected[name], rel=1e-3, abs=1e-5), name
        # AdamW turns a gradient near 0 into a step of either sign: compare with lr 1e-3.
        assert largest_change(student, found[0]) < 1e-4
        assert largest_change(composer, found[1]) < 1e-4


def test_a_gradient_that_is_not_finite_skips_the_whole_step(make: Make) -> None:
    learner = make(beta=0.3)
    episodes = episodes_for(learner)
    with torch.no_grad():
        learner.context.backbone.student_parameters()[0][5] = float("inf")
    before = weights(learner)
    metrics = learner.update(episodes)
    assert metrics["skipped"] == 1
    assert "loss_composer" not in metrics
    assert metrics["beta"] == 0.3
    assert all(same(a, b) for a, b in zip(before[1:], weights(learner)[1:], strict=True))
    assert not learner.state_dict()["student_optimiser"]["state"]


def test_a_composers_gradient_that_is_not_finite_skips_the_dual_variable_too(make: Make) -> None:
    learner = make(beta=0.3)
    before = weights(learner)
    learner.composer.compressor.queries.register_hook(lambda gradient: gradient * float("nan"))
    metrics = learner.update(episodes_for(learner))
    assert not np.isfinite(metrics["grad_norm_composer"])
    assert metrics["beta"] == learner.beta == 0.3
    student, composer, _ = weights(learner)
    assert same(before[1], composer)
    assert not same(before[0], student)


def test_a_resumed_learner_goes_on_as_if_nothing_had_happened(make: Make, tmp_path: Path) -> None:
    learner = make(cold_start_steps=1)
    episodes = episodes_for(learner)
    learner.prepare(episodes, nothing)
    learner.update(episodes)
    file = tmp_path / "state.pt"
    student = learner.context.backbone.student_state()
    torch.save({"learner": learner.state_dict(), "student": student}, file)
    expected = [learner.update(episodes) for _ in range(2)]
    resumed = make(cold_start_steps=1)
    state = torch.load(file, weights_only=True)
    resumed.context.backbone.load_student_state(state["student"])
    resumed.load_state_dict(state["learner"])
    assert [resumed.update(episodes) for _ in range(2)] == expected
    for one, other in zip(weights(learner), weights(resumed), strict=True):
        assert same(one, other)


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_base_of_16_bits_leaves_what_is_trained_in_32(make: Make, kind: str) -> None:
    model = make_model("qwen3").to(torch.bfloat16)
    student = StudentConfig(kind=kind, rank=4, alpha=8)
    backbone = Backbone(model, make_tokenizer(), get_format("qwen3"), student=student)
    learner = make(backbone, gradient_checkpointing=True, composer_lr=1e-5)
    episodes = episodes_for(learner)
    before = weights(learner)
    metrics = learner.update(episodes)
    assert all(np.isfinite(value) for value in metrics.values())
    # 8 bits of mantissa: equal weights are no longer exactly equal distributions.
    assert metrics["loss_student"] < 0.02
    for old, new in zip(before[:2], weights(learner)[:2], strict=True):
        assert {t.dtype for t in new.values()} == {torch.float32}
        # A step of 1e-5 would be lost in 16 bits.
        moved = [(old[name] != new[name]).float().mean().item() for name in new]
        assert sum(value > 0.9 for value in moved) > len(moved) / 2
    assert same(before[2], weights(learner)[2])


# -- what is learned -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_the_student_moves_to_the_teacher(make: Make, kind: str) -> None:
    learner = make(make_backbone(kind=kind), composer="frozen", latents=64)
    episodes = episodes_for(learner)
    losses = [learner.update(episodes)["loss_student"] for _ in range(12)]
    assert losses[0] > 0.01
    assert losses[-1] < 0.5 * losses[0]


def test_a_frozen_composer_stays_as_its_cold_start_left_it(make: Make) -> None:
    learner = make(composer="frozen", cold_start_steps=3)
    episodes = episodes_for(learner)
    start = weights(learner)[1]
    learner.prepare(episodes, nothing)
    before = weights(learner)[1]
    assert not same(start, before)
    metrics = learner.update(episodes)
    assert same(before, weights(learner)[1])
    assert "loss_composer" not in metrics
    assert metrics["delta"] != 0
    assert metrics["beta"] == 0


def test_without_a_margin_only_kl_and_anchor_are_left(make: Make) -> None:
    learner = make(beta=0.0, beta_rate=0.0)
    episodes = episodes_for(learner)
    learner.update(episodes)
    metrics = learner.update(episodes)
    expected = metrics["kl_composer"] + learner.config.anchor * metrics["anchor"]
    assert metrics["loss_composer"] == pytest.approx(expected, rel=1e-5)
    assert metrics["beta"] == 0


@pytest.mark.parametrize("changes", [{"items": 1, "latents": 5}, {"items": 5, "support": 1}])
def test_any_sizes(make: Make, changes: dict[str, int]) -> None:
    learner = make(**changes)
    assert learner.update(episodes_for(learner))["skipped"] == 0


def test_the_cold_start_helps_the_base_repeat_its_successes(make: Make) -> None:
    learner = make(cold_start_steps=12, cold_start_lr=3e-3, cold_start_batch=3)
    episodes = episodes_for(learner, (1.0,) * 4)
    examples = examples_for(learner, episodes)
    before, base = weights(learner)[1], weights(learner)[2]
    seen: list[tuple[int, int, float]] = []
    likely = teacher_log_probs(learner, examples)
    learner.prepare(episodes, lambda done, steps, m: seen.append((done, steps, m["loss"])))
    assert [done for done, _, _ in seen] == list(range(1, 13))
    assert {steps for _, steps, _ in seen} == {12}
    assert sum(teacher_log_probs(learner, examples)) > sum(likely) + 0.2
    assert not same(before, weights(learner)[1])
    assert same(base, weights(learner)[2])
    assert learner.update(episodes)["anchor"] == 0.0  # the anchor is where the cold start ended


def test_describing_does_not_need_both_outcomes(make: Make) -> None:
    learner = make()
    episodes = episodes_for(learner, (1.0,))
    metrics = learner.update(episodes)
    assert metrics["delta_failure"] == 0
    assert metrics["delta_success"] == metrics["delta"]


def test_cold_start_and_training_have_their_own_clips(make: Make, monkeypatch: Any) -> None:
    learner = make(cold_start_steps=1, cold_start_clip=3.0, clip=1.0)
    clips: list[float] = []

    def look(optimiser: torch.optim.Optimizer, max_norm: float) -> float:
        clips.append(max_norm)
        return clipped_step(optimiser, max_norm)

    for module in ("cold_start", "learner"):
        monkeypatch.setattr(f"lopd_learners.lopd.{module}.clipped_step", look)
    episodes = episodes_for(learner)
    learner.prepare(episodes, nothing)
    learner.update(episodes)
    assert clips == [3.0, 1.0, 1.0]
