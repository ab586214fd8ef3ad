"""GRPO's loss and gradient against formulas written out here, and what its options do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lopd_learners.grpo.config import PRESETS, GRPOConfig
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.policy.backbone import Backbone
from lopd_gym.tasks import Outcome, Termination
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.setting import (
    SAMPLING,
    Make,
    equal,
    gradient_of,
    group,
    log_probs,
    same,
    state,
    step,
)

SCORES = (1.0, 0.0, 0.0, 1.0)
ADVANTAGES = (0.866024, -0.866024, -0.866024, 0.866024)


def backbone_and_group() -> tuple[Backbone, list[Episode]]:
    backbone = make_backbone(kind="full")
    return backbone, group(backbone, 0, SCORES)


@pytest.mark.parametrize("reduction", ["token", "sequence", "constant"])
def test_the_first_gradient_is_that_of_reinforce_under_each_reduction(
    reduction: str, build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone, episodes = backbone_and_group()
    learner = build("grpo", backbone, reduction=reduction, constant=50)
    sums = [log_probs(backbone.student, e).sum() for e in episodes]
    lengths = [e.sampled_tokens for e in episodes]
    assert len(set(lengths)) == 4
    weights = {
        "token": [1 / sum(lengths)] * 4,
        "sequence": [1 / (4 * n) for n in lengths],
        "constant": [1 / (4 * 50)] * 4,
    }[reduction]
    parts = zip(weights, ADVANTAGES, sums, strict=True)
    expected = gradient_of(backbone, torch.stack([-w * a * s for w, a, s in parts]).sum())
    metrics = learner.update(episodes)
    assert equal(gradients[0], expected)
    build("grpo", reduction=reduction, constant=50, micro_batch_tokens=1).update(episodes)
    assert equal(gradients[1], expected)
    rows = zip(weights, ADVANTAGES, lengths, strict=True)
    assert metrics["loss"] == pytest.approx(-sum(w * a * n for w, a, n in rows), abs=1e-5)


def test_good_plays_become_likelier_and_bad_ones_less_likely(build: Make) -> None:
    backbone, episodes = backbone_and_group()
    learner = build("grpo", backbone)
    before = [log_probs(backbone.student, e).mean().item() for e in episodes]
    learner.update(episodes)
    after = [log_probs(backbone.student, e).mean().item() for e in episodes]
    gained = [new - old for old, new in zip(before, after, strict=True)]
    assert min(gained[0], gained[3]) > max(gained[1], gained[2])


def test_log_probabilities_are_those_at_the_temperature_of_the_sampler(
    build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone, episodes = backbone_and_group()
    cold = [replace(e, sampling=replace(SAMPLING, temperature=0.5)) for e in episodes]
    build("grpo", backbone).update(cold)
    build("grpo", make_backbone(kind="full")).update(episodes)
    assert not equal(gradients[0], gradients[1])
    greedy = [replace(e, sampling=replace(SAMPLING, temperature=0.0)) for e in episodes]
    build("grpo", make_backbone(kind="full")).update(greedy)
    assert equal(gradients[1], gradients[2])


# -- groups without a spread ---------------------------------------------------------------------


def test_groups_without_a_spread_are_counted_and_teach_nothing(build: Make) -> None:
    learner = build("grpo")
    backbone, before = learner.context.backbone, state(learner)
    metrics = learner.update(group(backbone, 2, (1.0, 1.0)) + group(backbone, 3, (0.0,) * 3))
    assert metrics == {
        "groups": 2.0,
        "zero_spread_groups": 1.0,
        "skipped": 1.0,
        "trained_episodes": 0.0,
    }
    assert same(before, state(learner))
    assert backbone.student_version == 0
    assert learner.update(step(backbone))["zero_spread_groups"] == pytest.approx(1 / 3)


def test_they_thin_the_mean_out_unless_they_are_dropped(
    build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone, useful = backbone_and_group()
    useless = group(backbone, 2, (1.0, 1.0))
    for episodes, drop in ((useful, False), (useful + useless, False), (useful + useless, True)):
        build("grpo", make_backbone(kind="full"), drop_zero_spread=drop).update(episodes)
    alone, thinned, dropped = gradients
    tokens = [sum(e.sampled_tokens for e in part) for part in (useful, useful + useless)]
    assert equal(dropped, alone)
    assert equal([g * tokens[1] / tokens[0] for g in thinned], alone)


def test_a_play_whose_siblings_failed_has_no_advantage(build: Make) -> None:
    learner = build("grpo")
    lonely = group(learner.context.backbone, 0, (1.0, None, None, None))
    assert learner.update(lonely)["trained_episodes"] == 0


# -- dynamic sampling ----------------------------------------------------------------------------


def test_dynamic_sampling_waits_until_a_step_is_full_of_groups_with_a_spread(build: Make) -> None:
    learner = build("grpo", dynamic_sampling=True)
    backbone, before = learner.context.backbone, state(learner)
    half = group(backbone, 0, SCORES) + group(backbone, 2, (1.0,) * 4)
    waiting = learner.update(half)
    assert (waiting["skipped"], waiting["trained_episodes"]) == (1, 0)
    assert same(before, state(learner))
    full = learner.update(half)
    assert (full["skipped"], full["trained_episodes"]) == (0, 8)
    assert learner.update(half)["trained_episodes"] == 0  # it begins anew


def test_dynamic_sampling_waits_ten_steps_at_most(build: Make) -> None:
    learner = build("grpo", dynamic_sampling=True)
    backbone = learner.context.backbone
    useful, useless = group(backbone, 0, SCORES), group(backbone, 2, (0.0,) * 8)
    counts = [learner.update(useful + useless)["trained_episodes"]]
    counts += [learner.update(useless)["trained_episodes"] for _ in range(10)]
    assert counts == [0] * 9 + [4] + [0]


def test_what_is_held_back_survives_a_checkpoint(build: Make, tmp_path: Path) -> None:
    learner = build("grpo", dynamic_sampling=True)
    backbone = learner.context.backbone
    half = group(backbone, 0, SCORES) + group(backbone, 2, (1.0,) * 4)
    learner.update(half)
    torch.save(learner.state_dict(), tmp_path / "state.pt")
    resumed = build("grpo", dynamic_sampling=True)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    other = group(backbone, 1, SCORES) + group(backbone, 3, (0.0,) * 4)
    expected = learner.update(other)
    assert expected["trained_episodes"] == 8
    assert resumed.update(other) == expected
    assert same(state(learner), state(resumed))


# -- truncated plays, sampler mismatch, several epochs, KL ----------------------------------------


def cut_off(episode: Episode) -> Episode:
    outcome = Outcome(episode.outcome.score, False, Termination.TOKEN_LIMIT)
    return replace(episode, outcome=outcome)


def test_truncated_plays_can_be_masked_but_count_in_their_groups_mean(
    build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone, episodes = backbone_and_group()
    learner = build("grpo", backbone, mask_truncated=True)
    kept = [0, 1, 3]
    tokens = sum(episodes[i].sampled_tokens for i in kept)
    losses = [-ADVANTAGES[i] * log_probs(backbone.student, episodes[i]).sum() for i in kept]
    expected = gradient_of(backbone, torch.stack(losses).sum() / tokens)
    episodes[2] = cut_off(episodes[2])
    assert learner.update(episodes)["trained_episodes"] == 3
    assert equal(gradients[0], expected)
    assert build("grpo").update(episodes)["trained_episodes"] == 4
    assert build("grpo", mask_truncated=True).update([cut_off(e) for e in episodes])["skipped"] == 1


def test_long_plays_score_lower_where_an_overlong_penalty_is_asked_for(
    build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone, episodes = backbone_and_group()
    lengths = [e.sampled_tokens for e in episodes]
    start, buffer = min(lengths), max(lengths) - min(lengths)
    lowered = [
        replace(e, outcome=replace(e.outcome, score=s - (n - start) / buffer))
        for e, s, n in zip(episodes, SCORES, lengths, strict=True)
    ]
    for given in (episodes, lowered):
        build("grpo", make_backbone(kind="full")).update(given)
    build("grpo", backbone, overlong_from=start, overlong_buffer=buffer).update(episodes)
    build("grpo", overlong_from=max(lengths)).update(episodes)
    plain, expected, penalised, short = gradients
    assert equal(penalised, expected)
    assert not equal(penalised, plain)
    assert equal(short, plain)


def test_only_dapo_asks_for_the_overlong_penalty() -> None:
    asked = {p: GRPOConfig(**changes).overlong_from for p, changes in PRESETS.items()}
    assert asked == {"paper": None, "tiny": None, "dr-grpo": None, "dapo": 16_384}


def test_tokens_beyond_the_limit_are_cut_off(build: Make) -> None:
    backbone, episodes = backbone_and_group()
    shortest = min(len(e.token_ids) for e in episodes)
    first = min(e.prefix_len for e in episodes)
    assert build("grpo", backbone, max_tokens=shortest - 1).update(episodes)["skipped"] == 0
    assert build("grpo", backbone, max_tokens=first).update(episodes)["skipped"] == 1


def shifted(episode: Episode, nats: float) -> Episode:
    """As if the sampler had given every sampled token so much more probability."""
    return replace(episode, logprobs=episode.logprobs + nats * episode.loss_mask)


def test_an_equal_sampler_changes_nothing(build: Make, gradients: list[list[Tensor]]) -> None:
    for mismatch in ("none", "token", "sequence"):
        _, episodes = backbone_and_group()
        metrics = build("grpo", mismatch=mismatch).update(episodes)
        assert metrics["mismatch"] == pytest.approx(0, abs=1e-5)
    assert equal(gradients[0], gradients[1])
    assert equal(gradients[0], gradients[2])


def test_a_different_sampler_is_corrected_for(build: Make, gradients: list[list[Tensor]]) -> None:
    backbone, episodes = backbone_and_group()
    build("grpo", backbone).update(episodes)
    off = [shifted(e, 0.5) for e in episodes]
    metrics = build("grpo", mismatch="token").update(off)
    assert metrics["mismatch"] == pytest.approx(-0.5, abs=1e-5)
    assert equal(gradients[1], [g * 0.60653 for g in gradients[0]])
    build("grpo", mismatch="token", mismatch_cap=2.0).update([shifted(e, -3.0) for e in episodes])
    assert equal(gradients[2], [g * 2 for g in gradients[0]])


def test_a_sequence_that_the_sampler_found_too_unlikely_is_dropped(
    build: Make, gradients: list[list[Tensor]]
) -> None:
    backbone, episodes = backbone_and_group()
    losses = [
        -a * log_probs(backbone.student, e).sum() for a, e in zip(ADVANTAGES, episodes, strict=True)
    ]
    tokens = sum(e.sampled_tokens for e in episodes)
    expected = gradient_of(backbone, torch.stack(losses[1:]).sum() / tokens)
    episodes[0] = shifted(episodes[0], -0.1)
    build("grpo", backbone, mismatch="sequence", mismatch_cap=3.0).update(episodes)
    assert equal(gradients[0], expected)


def test_later_epochs_are_clipped_against_the_policy_that_played(build: Make) -> None:
    _, episodes = backbone_and_group()
    once = build("grpo").update(episodes)
    learner = build("grpo", lr=1e-4, epochs=6)
    metrics = learner.update(episodes)
    assert metrics["clipped"] > 0
    assert once["clipped"] == 0
    assert metrics["loss"] < once["loss"] - 1e-3
    assert learner.context.backbone.student_version == 1


def test_a_kl_to_the_base_pulls_the_student_back(build: Make) -> None:
    _, episodes = backbone_and_group()
    drift: dict[float, list[float]] = {}
    for kl in (0.001, 10.0):
        learner = build("grpo", kl=kl, lr=3e-3)
        drift[kl] = [learner.update(episodes)["kl"] for _ in range(4)]
    for values in drift.values():
        assert values[0] == pytest.approx(0, abs=1e-5)
        assert values[1] > 1e-4
    assert drift[10.0][-1] < 0.5 * drift[0.001][-1]


def test_the_kl_is_a_part_of_the_loss(build: Make) -> None:
    _, episodes = backbone_and_group()

    def second(kl: float) -> dict[str, Any]:
        learner = build("grpo", kl=kl)
        with torch.no_grad():
            for parameter in learner.context.backbone.student_parameters():
                parameter.mul_(1.02)
        metrics: dict[str, Any] = learner.update(episodes)
        return metrics

    without, little = second(0.0), second(0.5)
    assert (without["kl"], little["kl"] > 1e-4) == (0.0, True)
    assert little["loss"] == pytest.approx(without["loss"] + 0.5 * little["kl"], rel=1e-4)
