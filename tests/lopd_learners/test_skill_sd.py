"""Skill-SD: one step, which is GRPO's and distillation from the student with a skill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lopd_learners.forward import log_probs_at, supervised_states
from lopd_learners.losses import weighted_k3
from lopd_learners.rows import privileged_rows
from lopd_learners.skill_sd.skills import Skill
from torch import Tensor

from lopd_gym.policy.backbone import Backbone
from lopd_gym.tasks import Outcome, Termination
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.setting import (
    Make,
    equal,
    gradient_of,
    group,
    log_probs,
    same,
    state,
    step,
)


def skill(name: str) -> Skill:
    return Skill(f"calling {name}", "none seen", f"1. {name}() -> ok", "Find it.")


def taught(build: Make, backbone: Backbone | None = None, **options: Any) -> Any:
    """A learner that has a skill for the first task, which it has not shown."""
    learner = build("skill-sd", backbone, **options)
    learner.skills.add("task-0", skill("find"))
    return learner


def test_without_a_skill_a_step_is_grpos(build: Make, gradients: list[list[Tensor]]) -> None:
    grpo, learner = build("grpo", clip_high=0.28), build("skill-sd")
    episodes = step(grpo.context.backbone)
    expected, metrics = grpo.update(episodes), learner.update(episodes)
    assert equal(gradients[0], gradients[1])
    assert metrics == {**expected, "context_share": 0.0, "skills": 3.0}


def test_skills_are_made_after_the_step_for_later_ones(build: Make) -> None:
    learner = build("skill-sd")
    episodes = step(learner.context.backbone)
    assert learner.update(episodes)["context_share"] == 0.0
    assert learner.update(episodes)["context_share"] == 1.0


def test_an_equal_teacher_adds_nothing(build: Make, gradients: list[list[Tensor]]) -> None:
    learner = taught(build, template="{message}", distillation=1.0)
    backbone = learner.context.backbone
    metrics = learner.update(group(backbone, 0, (1.0, 1.0)))
    assert (metrics["context_share"], metrics["skipped"]) == (1, 0)
    assert abs(metrics["loss"]) < 1e-4
    assert max(g.abs().max() for g in gradients[0]) < 1e-4


def test_the_loss_is_grpos_and_weighted_k3(build: Make, gradients: list[list[Tensor]]) -> None:
    backbone = make_backbone(kind="full")
    learner = taught(build, backbone, distillation=0.5)
    episodes = group(backbone, 0, (1.0, 0.0))
    tokens, losses = sum(e.sampled_tokens for e in episodes), []
    shown = skill("find").shown()
    for episode, advantage in zip(episodes, (0.707106, -0.707106), strict=True):
        config = learner.config
        _, row = privileged_rows(backbone, episode, config.template, "user", shown, 9999)
        with torch.no_grad():
            states = supervised_states(backbone.student, [row])
            q_log = log_probs_at(backbone.student, states, row.targets[:, None])[:, 0]
        p_log = log_probs(backbone.student, episode)
        ratios = (p_log - p_log.detach()).exp()
        losses.append((-advantage * ratios + 0.5 * weighted_k3(p_log, q_log, ratios)).sum())
    loss = torch.stack(losses).sum() / tokens
    expected = gradient_of(backbone, loss)
    metrics = learner.update(episodes)
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-3)
    assert equal(gradients[0], expected)


def test_distillation_teaches_where_rewards_do_not(build: Make) -> None:
    learner = taught(build, lr=1e-3)
    episodes = group(learner.context.backbone, 0, (0.0, 0.0, 0.0))
    before = state(learner)
    metrics = learner.update(episodes)
    assert (metrics["zero_spread_groups"], metrics["skipped"]) == (1, 0)
    assert not same(before, state(learner))
    losses = [metrics["loss"]] + [learner.update(episodes)["loss"] for _ in range(8)]
    assert losses[-1] < 0.7 * losses[0]


def test_a_taught_group_is_not_dropped_for_want_of_a_spread(build: Make) -> None:
    for options in ({"drop_zero_spread": True}, {"dynamic_sampling": True}):
        learner = taught(build, **options)
        episodes = group(learner.context.backbone, 0, (0.0,) * 4)
        assert learner.update(episodes)["trained_episodes"] == 4


def test_a_group_that_is_held_back_keeps_its_teacher(build: Make, tmp_path: Path) -> None:
    results = []
    for reload in (False, True):
        learner = taught(build, dynamic_sampling=True)
        backbone = learner.context.backbone
        waiting = learner.update(group(backbone, 0, (0.0,) * 4) + group(backbone, 2, (0.0,) * 4))
        assert waiting["trained_episodes"] == 0
        if reload:
            torch.save(learner.state_dict(), tmp_path / "state.pt")
            learner = build("skill-sd", dynamic_sampling=True)
            learner.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
        results.append(learner.update(group(backbone, 1, (1.0, 0.0, 0.0, 0.0))))
    assert results[0] == results[1]
    assert results[0]["trained_episodes"] == 8
    assert results[0]["loss"] > 0.01  # GRPO's share of it is about 0


def test_a_skill_is_credited_with_the_mean_score_of_the_group(build: Make) -> None:
    learner = taught(build)
    learner.update(group(learner.context.backbone, 0, (1.0, 0.5, None)))
    (arm, *_) = learner.skills.state_dict()["task-0"]
    assert (arm["shown"], arm["total"]) == (1, 0.75)


@pytest.mark.parametrize(("pool", "share"), [("task", 0.0), ("group", 1.0)])
def test_whose_skills_a_task_is_shown(build: Make, pool: str, share: float) -> None:
    learner = build("skill-sd", pool=pool)
    backbone = learner.context.backbone
    learner.update(group(backbone, 0, (1.0, 0.0)))  # tasks 0 and 2 are of one group
    assert learner.update(group(backbone, 2, (1.0, 0.0)))["context_share"] == share
    assert learner.update(group(backbone, 1, (1.0, 0.0)))["context_share"] == 0


def test_the_skill_stands_in_the_teachers_prompt_only(build: Make, monkeypatch: Any) -> None:
    learner = taught(build)
    backbone = learner.context.backbone
    episodes, texts = group(backbone, 0, (1.0, 0.0)), []
    encode = backbone.encode
    monkeypatch.setattr(backbone, "encode", lambda text: (texts.append(text), encode(text))[1])
    ids = [e.token_ids.copy() for e in episodes]
    learner.update(episodes)
    assert len(texts) == 2
    assert all('"worked": "calling find"' in t and "Solve the current task" in t for t in texts)
    assert all((e.token_ids == old).all() for e, old in zip(episodes, ids, strict=True))


def test_outcomes_that_are_cut_off_can_still_make_a_skill(build: Make) -> None:
    learner = build("skill-sd", mask_truncated=True)
    episodes = group(learner.context.backbone, 0, (1.0,))
    cut = replace(episodes[0], outcome=Outcome(1.0, True, Termination.STEP_LIMIT))
    assert learner.update([cut])["skills"] == 1
