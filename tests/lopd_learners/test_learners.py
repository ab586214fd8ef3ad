"""What is true of every learner: one step on a random model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lopd_learners.forward import supervised_states
from lopd_learners.rows import student_row
from torch import Tensor

from lopd_gym.chat import get_format
from lopd_gym.errors import UsageError
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.registry import LEARNERS, load, names
from lopd_gym.run.build import learner_section
from tests.lopd_gym.policy.models import make_backbone, make_model, make_tokenizer
from tests.lopd_learners.lopd.setting import make_episode
from tests.lopd_learners.setting import SMALL, Make, same, state, step

ALL = sorted(SMALL)
TEXT = [name for name in ALL if name != "lopd"]  # LOPD's own tests go further


def prime(learner: Any) -> None:
    """Give Skill-SD a skill to show; the others need nothing."""
    if learner.name == "skill-sd":
        learner.update(step(learner.context.backbone))


def test_the_registered_learners_are_those_tested_here() -> None:
    assert set(ALL) <= set(names(LEARNERS))


@pytest.mark.parametrize("name", TEXT)
def test_micro_batches_and_checkpointing_change_neither_loss_nor_gradient(
    name: str, build: Make, gradients: list[list[Tensor]]
) -> None:
    results = []
    for tokens, recompute in ((100_000, False), (1, False), (900, True)):
        learner = build(name, micro_batch_tokens=tokens, gradient_checkpointing=recompute)
        prime(learner)
        metrics = learner.update(step(learner.context.backbone))
        results.append((metrics, gradients[-1]))
    expected, pushed = results[0]
    assert any(g.abs().max() > 1e-4 for g in pushed)
    for metrics, found in results[1:]:
        for key, value in metrics.items():
            assert value == pytest.approx(expected[key], rel=2e-3, abs=1e-5), key
        for one, other in zip(pushed, found, strict=True):
            assert torch.allclose(one, other, atol=1e-5, rtol=2e-3)


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("name", TEXT)
def test_a_step_moves_the_student_and_nothing_else(name: str, kind: str, build: Make) -> None:
    learner = build(name, make_backbone(kind=kind))
    backbone = learner.context.backbone
    student, version = state(learner), backbone.student_version
    base = {n: t.clone() for n, t in backbone.base.state_dict().items()}
    metrics = learner.update(step(backbone))
    assert metrics["skipped"] == 0
    assert metrics["trained_episodes"] > 0
    assert all(np.isfinite(value) for value in metrics.values())
    assert not same(student, state(learner))
    assert same(base, backbone.base.state_dict())
    assert all(p.grad is None for p in backbone.base.parameters())
    assert backbone.student_version > version  # so the engine takes the new weights


@pytest.mark.parametrize("name", ALL)
def test_failed_episodes_change_nothing(name: str, build: Make) -> None:
    without, with_failed = build(name), build(name)
    episodes = step(without.context.backbone)
    failed = make_episode(without.context.backbone, 0, None, attempt=9)
    assert failed.failed
    expected = without.update(episodes)
    assert with_failed.update([failed, *episodes, failed]) == pytest.approx(expected)
    assert same(state(without), state(with_failed))


@pytest.mark.parametrize("name", ALL)
def test_nothing_to_learn_from_is_no_error(name: str, build: Make) -> None:
    learner = build(name)
    student = state(learner)
    played = make_episode(learner.context.backbone, 0)
    unsampled = replace(played, loss_mask=np.zeros_like(played.loss_mask))
    for episodes in ([], [make_episode(learner.context.backbone, 0, None)], [unsampled]):
        metrics = learner.update(episodes)
        assert metrics["skipped"] == 1
        assert metrics["trained_episodes"] == 0
    assert same(student, state(learner))


@pytest.mark.parametrize("name", TEXT)
def test_a_gradient_that_is_not_finite_skips_the_whole_step(name: str, build: Make) -> None:
    learner = build(name)
    episodes = step(learner.context.backbone)
    with torch.no_grad():
        learner.context.backbone.student_parameters()[0][5] = float("inf")
    before = state(learner)
    assert learner.update(episodes)["skipped"] == 1
    assert all(torch.equal(before[n], t) for n, t in state(learner).items())
    assert not learner.state_dict()["optimiser"]["state"]


@pytest.mark.parametrize("name", TEXT)
def test_a_resumed_learner_goes_on_as_if_nothing_had_happened(
    name: str, build: Make, tmp_path: Path
) -> None:
    learner = build(name)
    episodes = step(learner.context.backbone)
    learner.update(episodes)
    file = tmp_path / "state.pt"
    torch.save({"learner": learner.state_dict(), "student": state(learner)}, file)
    expected = [learner.update(episodes) for _ in range(2)]
    resumed = build(name)
    saved = torch.load(file, weights_only=True)
    resumed.context.backbone.load_student_state(saved["student"])
    resumed.load_state_dict(saved["learner"])
    assert [resumed.update(episodes) for _ in range(2)] == expected
    assert same(state(learner), state(resumed))


@pytest.mark.parametrize("name", TEXT)
def test_only_sampled_tokens_are_predicted(name: str, build: Make) -> None:
    """Never a tool's reply, the template's glue or the prompt, although all of them are read."""
    learner = build(name, skip_first=0) if name == "sdft" else build(name)
    backbone = learner.context.backbone
    states: list[Tensor] = []
    head = backbone.student.get_output_embeddings()
    head.register_forward_pre_hook(lambda module, given: states.append(given[0].detach()))
    episodes = step(backbone)
    states.clear()
    learner.update(episodes)
    used = [e for e in episodes if name != "rft" or e.outcome.success]
    if name == "sdpo":  # the only success of its group has no sibling to show
        used = [e for e in used if (e.task_id, e.attempt) != ("task-1", 1)]
    with torch.no_grad():
        rows = [student_row(e, 10_000) for e in sorted(used, key=lambda e: len(e.token_ids))]
        expected = supervised_states(make_backbone(kind="full").student, rows)
    assert any(found.shape == expected.shape and close(found, expected) for found in states)


def close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("name", TEXT)
def test_a_base_of_16_bits_leaves_what_is_trained_in_32(name: str, kind: str, build: Make) -> None:
    model = make_model("qwen3").to(torch.bfloat16)
    student = StudentConfig(kind=kind, rank=4, alpha=8)
    backbone = Backbone(model, make_tokenizer(), get_format("qwen3"), student=student)
    learner = build(name, backbone, gradient_checkpointing=True)
    prime(learner)
    metrics = learner.update(step(backbone))
    assert metrics["skipped"] == 0
    assert all(np.isfinite(value) for value in metrics.values())
    assert {t.dtype for t in state(learner).values()} == {torch.float32}


@pytest.mark.parametrize("name", ALL)
def test_presets_are_valid_and_a_wrong_value_is_refused(name: str) -> None:
    presets = load(LEARNERS, name).presets
    assert {"paper", "tiny"} <= set(presets)
    for preset in presets:
        learner_section(name, preset, {})
    wrong = {"student_lr" if name == "lopd" else "lr": -1, "micro_batch_tokens": 0}
    if name in ("opsd", "sdft", "sdpo"):
        wrong |= {"ema_rate": 1.5, "mismatch_cap": 0}
    for option, value in wrong.items():
        with pytest.raises(UsageError, match=option):
            learner_section(name, "paper", {option: value})
