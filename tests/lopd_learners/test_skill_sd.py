"""Skill-SD: the bandit, the summarisers and the parser, and the loss of a step."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.forward import log_probs_at, supervised_states
from lopd_learners.losses import weighted_k3
from lopd_learners.rows import privileged_rows
from lopd_learners.skill_sd.skills import Skill, SkillBank
from lopd_learners.skill_sd.summarise import Written, by_rules, make_summariser, parse_skill
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.errors import UsageError
from lopd_gym.policy.backbone import Backbone
from lopd_gym.tasks import Check, Outcome, Termination
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_gym.policy.server import chat_server, completion, error, in_turn
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

text = st.text(max_size=20)


def skill(name: str) -> Skill:
    return Skill(f"calling {name}", "none seen", f"1. {name}() -> ok", "Find it.")


# -- the bandit ----------------------------------------------------------------------------------


def show(bank: SkillBank, reward: Callable[[int], float], times: int) -> list[int]:
    shown = []
    for _ in range(times):
        number = bank.choose("task")
        assert number is not None
        bank.credit("task", number, reward(number))
        shown.append(number)
    return shown


def test_skills_that_were_never_shown_come_first_in_the_order_they_came() -> None:
    bank = SkillBank(exploration=math.sqrt(2), most=8)
    assert bank.choose("task") is None
    for name in "abc":
        bank.add("task", skill(name))
    assert show(bank, lambda n: 1.0, 3) == [0, 1, 2]
    bank.add("task", skill("d"))
    assert bank.choose("task") == 3
    assert bank.choose("another task") is None


def test_the_upper_confidence_bound() -> None:
    bank = SkillBank(exploration=1.0, most=8)
    for name in "ab":
        bank.add("task", skill(name))
    for number, score in ((0, 0.9), (1, 0.5), (0, 0.7), (0, 0.8)):
        bank.credit("task", number, score)
    # 0: 0.8 + sqrt(ln 4 / 3) = 1.480; 1: 0.5 + sqrt(ln 4 / 1) = 1.677
    assert bank.choose("task") == 1
    bank.credit("task", 1, 0.0)
    # 0: 0.8 + sqrt(ln 5 / 3) = 1.532; 1: 0.25 + sqrt(ln 5 / 2) = 1.147
    assert bank.choose("task") == 0


def test_without_exploration_ties_go_to_the_oldest() -> None:
    bank = SkillBank(exploration=0.0, most=8)
    for name in "abc":
        bank.add("task", skill(name))
    assert show(bank, lambda n: 0.5, 6) == [0, 1, 2, 0, 0, 0]


def test_the_bandit_settles_on_the_best_skill() -> None:
    bank = SkillBank(exploration=math.sqrt(2), most=8)
    for name in "abcd":
        bank.add("task", skill(name))
    shown = show(bank, lambda n: 0.9 if n == 2 else 0.1, 400)
    assert shown.count(2) > 250


def test_the_worst_skill_makes_room_and_a_known_one_is_not_added_again() -> None:
    bank = SkillBank(exploration=0.0, most=2)
    for name in "aba":
        bank.add("task", skill(name))
    assert len(bank) == 2
    bank.credit("task", 0, 0.9)
    bank.credit("task", 1, 0.2)
    bank.add("task", skill("c"))
    assert [bank.skill("task", n).worked for n in (0, 1)] == ["calling a", "calling c"]
    bank.add("task", skill("d"))  # "c" has not had its chance, so "a" goes
    assert [bank.skill("task", n).worked for n in (0, 1)] == ["calling c", "calling d"]


def test_a_bank_of_skills_is_plain_json() -> None:
    bank = SkillBank(exploration=1.0, most=8)
    for name in "ab":
        bank.add("task", skill(name))
    bank.credit("task", 0, 0.25)
    other = SkillBank(exploration=1.0, most=8)
    other.load_state_dict(json.loads(json.dumps(bank.state_dict())))
    assert other == bank
    assert other.choose("task") == 1


# -- summarisers ---------------------------------------------------------------------------------


def with_check(episode: Episode, name: str, passed: bool) -> Episode:
    outcome = replace(episode.outcome, checks=(Check(name, passed),))
    return replace(episode, outcome=outcome)


def test_the_rules_tell_the_shortest_success_from_what_broke() -> None:
    long, failed, short = group(make_backbone(), 4, (1.0, 0.0, 1.0))
    long = replace(long, actions=long.actions * 3)
    short = replace(short, actions=(("find", {"id": 4}, "ok"), ("close", {}, "ok")))
    found = by_rules([long, with_check(failed, "the book is back", False), short])
    assert found == Skill(
        worked="calling find, close",
        mistakes="the book is back",
        workflow="1. find(id=4) -> ok\n2. close() -> ok",
        instruction="Find the new book number 4.",
    )


@pytest.mark.parametrize("scores", [(0.0, 0.5), ()])
def test_without_a_success_the_rules_have_nothing_to_say(scores: tuple[float, ...]) -> None:
    assert by_rules(group(make_backbone(), 0, scores)) is None
    idle = [replace(e, actions=()) for e in group(make_backbone(), 0, (1.0,))]
    assert by_rules(idle) is None


@given(text, text, text, text, text)
def test_what_a_model_writes_around_a_skill_does_not_matter(
    worked: str, mistakes: str, workflow: str, before: str, after: str
) -> None:
    parts = {"worked": worked, "mistakes": mistakes, "workflow": workflow}
    written = f"{before.replace('{', '')}{json.dumps(parts)}{after.replace('}', '')}"
    assert parse_skill(written, "Do it.") == Skill(**parts, instruction="Do it.")


values = st.recursive(
    st.none() | st.booleans() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
)


@given(text | values.map(json.dumps) | st.just("{" * 100_000) | st.just('{"a":' * 50_000 + "}"))
def test_the_parser_takes_anything(written: str) -> None:
    assert parse_skill(written, "Do it.") is None


@pytest.mark.parametrize("wrong", [3, None, ["a"], {"a": "b"}])
def test_a_part_that_is_no_string_makes_no_skill(wrong: Any) -> None:
    parts = {"worked": "a", "mistakes": wrong, "workflow": "c"}
    assert parse_skill(json.dumps(parts), "Do it.") is None


def test_half_a_surrogate_pair_is_replaced() -> None:
    """JSON can hold it, and no tokenizer can read it."""
    parts = {"worked": "a", "mistakes": "b\ud800", "workflow": "c"}
    assert parse_skill(json.dumps(parts), "Do it.") == Skill("a", "b?", "c", "Do it.")


def test_the_base_is_asked_and_without_json_the_rules_write_the_skill() -> None:
    backbone = make_backbone()
    episodes = group(backbone, 0, (1.0, 0.0))
    summarise = make_summariser("policy", None, backbone)
    assert summarise(episodes) == by_rules(episodes)  # a random model writes no JSON
    assert summarise(episodes[1:]) is None


def test_a_model_writes_a_skill_from_all_attempts() -> None:
    episodes, asked = group(make_backbone(), 0, (1.0, 0.0)), []

    def answer(question: str) -> str:
        asked.append(question)
        return 'Sure: {"worked": "a", "mistakes": "b", "workflow": "c"} Good luck!'

    assert Written(answer)(episodes) == Skill("a", "b", "c", episodes[0].instruction)
    assert "Attempt (score 1.0):\n1. find(id=0) -> it is there" in asked[0]
    assert "Attempt (score 0.0)" in asked[0]
    assert episodes[0].instruction in asked[0]


def test_a_model_behind_an_endpoint_writes_a_skill() -> None:
    written = completion('{"worked": "a", "mistakes": "b", "workflow": "c"}')
    episodes = group(make_backbone(), 0, (1.0, 0.0))
    with chat_server(in_turn(written, error(400, "context_length_exceeded"))) as server:
        summarise = make_summariser("openai:writer", server.url, make_backbone())
        assert summarise(episodes) == Skill("a", "b", "c", episodes[0].instruction)
        assert summarise(episodes) == by_rules(episodes)
        assert server.requests[0]["model"] == "writer"


@pytest.mark.parametrize(
    ("name", "words"),
    [("rule", "did you mean 'rules'"), ("openai:m", "summariser_url")],
)
def test_a_summariser_that_does_not_exist_is_named(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_summariser(name, None, make_backbone())


# -- a step --------------------------------------------------------------------------------------


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
