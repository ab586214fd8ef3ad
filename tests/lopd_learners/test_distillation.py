"""OPSD, SDFT and SDPO: which context the teacher sees, by what the student follows it, and how."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.averaged import AveragedTeacher
from lopd_learners.distillation import ContextDistillation
from lopd_learners.forward import supervised_states
from lopd_learners.losses import (
    clipped_forward_kl,
    forward_kl,
    jensen_shannon,
    reverse_kl,
    with_tail,
)
from lopd_learners.rows import fill, privileged_rows
from torch import Tensor

from lopd_gym.bank import Bank, Experience
from lopd_gym.policy.backbone import Backbone
from lopd_gym.tasks import Check
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.lopd.setting import make_task, spelled
from tests.lopd_learners.setting import (
    DISTILLERS,
    Make,
    equal,
    gradient_of,
    group,
    make,
    same,
    state,
    step,
)

each = pytest.mark.parametrize("name", DISTILLERS)


# -- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["system", "user"])
def test_teacher_and_student_supervise_the_same_tokens_after_different_prefixes(place: Any) -> None:
    backbone = make_backbone()
    (episode,) = group(backbone, 0, (1.0,))
    values = {"trace": "1. find() -> ok"}
    template = "Seen:\n{trace}\n{message}"
    student, teacher = privileged_rows(backbone, episode, template, place, values, 9999)
    assert (student.ids == episode.token_ids).all()
    assert student.targets.tolist() == teacher.targets.tolist()
    assert student.targets.tolist() == episode.token_ids[episode.loss_mask].tolist()
    suffix = len(episode.token_ids) - episode.prefix_len
    assert (student.ids[-suffix:] == teacher.ids[-suffix:]).all()
    longer = len(teacher.ids) - len(student.ids)
    assert longer > 0
    assert (np.flatnonzero(teacher.supervised) - np.flatnonzero(student.supervised) == longer).all()
    text = backbone.decode(teacher.ids[: len(teacher.ids) - suffix].tolist())
    system, user = (m.content for m in make_task(0).messages)
    placed = f"Seen:\n1. find() -> ok\n{system if place == 'system' else user}"
    assert placed in text
    assert (user if place == "system" else system) in text


def test_a_system_place_without_a_system_message_is_the_user_message() -> None:
    backbone = make_backbone()
    (episode,) = group(backbone, 0, (1.0,))
    headless = replace(episode, transcript=episode.transcript[1:])
    _, teacher = privileged_rows(backbone, headless, "Hint. {message}", "system", {}, 9999)
    assert f"Hint. {episode.instruction}" in backbone.decode(teacher.ids.tolist())


def test_a_template_of_the_message_alone_is_the_students_own_prompt() -> None:
    backbone = make_backbone()
    (episode,) = group(backbone, 0, (1.0,))
    student, teacher = privileged_rows(backbone, episode, "{message}", "user", {}, 9999)
    assert student.ids.tolist() == teacher.ids.tolist()


def test_a_cut_off_episode_is_cut_off_in_both_rows() -> None:
    backbone = make_backbone()
    (episode,) = group(backbone, 0, (1.0,))
    cut = int(np.flatnonzero(episode.loss_mask)[3])
    rows = privileged_rows(backbone, episode, "Hint. {message}", "user", {}, cut)
    assert [row.targets.tolist() for row in rows] == [
        episode.token_ids[episode.loss_mask][:3].tolist()
    ] * 2


@given(st.text(), st.text())
def test_a_template_keeps_every_other_brace(before: str, value: str) -> None:
    before = before.replace("{x}", "")
    assert fill(before + "{x}{y}{{}}", {"x": value}) == before + value + "{y}{{}}"
    assert fill("{x}{y}", {"x": "{y}", "y": value}) == "{y}" + value  # values are not templates


# -- the loss ------------------------------------------------------------------------------------

TRACE = '1. find(id=0) -> "ok"'


def distributions(learner: ContextDistillation, scores: tuple[float, ...]) -> Any:
    """Episodes of task 0, and at each sampled token p [S, V] with gradient, and q [S, V]."""
    backbone, config = learner.context.backbone, learner.config
    episodes, found = group(backbone, 0, scores), []
    for episode, values in zip(episodes, learner.contexts(episodes), strict=True):
        if values is None:
            continue
        rows = privileged_rows(backbone, episode, config.template, config.place, values, 9999)
        for model, row in zip((backbone.student, backbone.base), rows, strict=True):
            states = supervised_states(model, [row])
            found.append(model.get_output_embeddings()(states).log_softmax(-1))
    return episodes, torch.cat(found[::2]), torch.cat(found[1::2]).detach()


def on_top(p_log: Tensor, q_log: Tensor, weight: float) -> Tensor:
    ids = p_log.topk(8).indices
    p, q = (with_tail(values.gather(-1, ids)) for values in (p_log, q_log))
    return jensen_shannon(p, q, weight)


@pytest.mark.parametrize(
    ("name", "options", "divergence"),
    [
        ("opsd", {}, partial(clipped_forward_kl, clip=0.05)),
        ("opsd", {"entry_clip": None}, forward_kl),
        ("sdft", {"skip_first": 0}, forward_kl),
        ("sdpo", {}, partial(on_top, weight=1.0)),
        ("sdpo", {"divergence_weight": 0.5}, partial(on_top, weight=0.5)),
        ("sdpo", {"divergence_weight": 0.0}, partial(on_top, weight=0.0)),
        ("sdpo", {"support": 320}, reverse_kl),
    ],
)
def test_loss_and_gradient_are_the_token_mean_of_the_published_divergence(
    name: str, options: Any, divergence: Any, build: Make, gradients: list[list[Tensor]]
) -> None:
    learner = build(name, mismatch_cap=None, **options)
    episodes, p_log, q_log = distributions(learner, (1.0, 0.0, 1.0))
    loss = divergence(p_log, q_log).mean()
    expected = gradient_of(learner.context.backbone, loss)
    assert loss > 1e-3
    assert learner.update(episodes)["loss"] == pytest.approx(loss.item(), rel=2e-3)
    assert equal(gradients[0], expected)


@each
def test_without_a_context_an_equal_teacher_says_nothing(
    name: str, build: Make, gradients: list[list[Tensor]]
) -> None:
    learner = build(name, template="{message}")
    metrics = learner.update(step(learner.context.backbone))
    assert metrics["trained_episodes"] > 0
    assert abs(metrics["loss"]) < 1e-4
    assert max(g.abs().max() for g in gradients[0]) < 1e-4


@each
@pytest.mark.parametrize("kind", ["full", "lora"])
def test_the_student_moves_to_its_teacher(name: str, kind: str, build: Make) -> None:
    options = {"entry_clip": None} if name == "opsd" else {}
    learner = build(name, make_backbone(kind=kind), teacher="base", **options)
    episodes = step(learner.context.backbone)
    losses = [learner.update(episodes)["loss"] for _ in range(12)]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("name", ["opsd", "sdft"])
def test_success_and_failure_teach_alike(name: str, build: Make) -> None:
    backbone = make_backbone(kind="full")
    lost, won = (build(name).update(group(backbone, 0, (score,))) for score in (0.0, 1.0))
    assert lost == won


def test_the_first_tokens_are_left_out(build: Make, gradients: list[list[Tensor]]) -> None:
    learner = build("sdft", skip_first=3, mismatch_cap=None)
    episodes, p_log, q_log = distributions(learner, (1.0,))
    loss = forward_kl(p_log, q_log)[3:].mean()
    expected = gradient_of(learner.context.backbone, loss)
    assert learner.update(episodes)["loss"] == pytest.approx(loss.item(), rel=1e-3)
    assert equal(gradients[0], expected)
    everything = build("sdft", skip_first=10_000).update(episodes)
    assert (everything["skipped"], everything["trained_episodes"]) == (1, 0)


@pytest.mark.parametrize("name", ["sdft", "sdpo"])
def test_tokens_that_the_sampler_liked_less_count_up_to_the_cap(
    name: str, build: Make, gradients: list[list[Tensor]]
) -> None:
    episodes = step(make_backbone(kind="full"))
    expected = build(name, mismatch_cap=None).update(episodes)["loss"]
    for nats, factor in ((0.0, 1.0), (0.5, 0.60653), (-0.5, 1.64872), (-3.0, 2.0)):
        shifted = [replace(e, logprobs=e.logprobs + nats * e.loss_mask) for e in episodes]
        loss = build(name, mismatch_cap=2.0).update(shifted)["loss"]
        assert loss == pytest.approx(factor * expected, rel=1e-3)
        assert equal(gradients[-1], [g * factor for g in gradients[0]])


# -- what the teacher is shown -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["opsd", "sdft"])
def test_the_best_known_solution_of_the_task_is_shown(name: str, tmp_path: Path) -> None:
    def known(task: int, trace: str, score: float, env: str = "books") -> Experience:
        t = make_task(task)
        return Experience(env, "train", t.id, t.group, t.instruction, trace, score)

    with Bank.open(tmp_path, "hashing") as bank:
        learner = make(name, bank, tmp_path)
        bank.add([known(0, "good", 0.8), known(0, "best", 1.0), known(0, "later", 1.0)])
        bank.add([known(1, "of another environment", 1.0, env="films")])
        backbone = learner.context.backbone
        (shown, none) = learner.contexts([*group(backbone, 0, (0.0,)), *group(backbone, 1, (1.0,))])
        assert shown["trace"] == "best"
        assert shown["item"].startswith(make_task(0).instruction)
        assert none is None
        metrics = learner.update([*group(backbone, 0, (0.0,)), *group(backbone, 1, (1.0,))])
        assert (metrics["context_share"], metrics["trained_episodes"]) == (0.5, 1)
        assert learner.update(group(backbone, 1, (1.0,)))["skipped"] == 1
    assert learner.needs(learner.config).bank
    assert learner.needs(learner.config).solved_tasks


def attempts(learner: Any, episodes: list[Any]) -> list[int | None]:
    """Which attempt each episode's teacher is shown; its trace holds the attempt's number."""
    marked = [replace(e, actions=(("find", {"try": e.attempt}, "ok"),)) for e in episodes]
    shown = learner.contexts(marked)
    return [None if x is None else int(x["trace"][len("1. find(try=")]) for x in shown]


@pytest.mark.parametrize(
    ("scores", "own", "expected"),
    [
        ((0.0, 1.0, 1.0, 0.5), False, [1, 2, 1, 1]),  # the first that is not oneself
        ((0.0, 1.0, 0.0), False, [1, None, 1]),
        ((0.0, 1.0, 0.0), True, [1, 1, 1]),
        ((0.0, 0.9), False, [None, None]),
        ((1.0,), False, [None]),
    ],
)
def test_the_first_successful_sibling_is_shown(
    build: Make, scores: tuple[float, ...], own: bool, expected: list[int | None]
) -> None:
    learner = build("sdpo", own_success=own)
    assert attempts(learner, group(learner.context.backbone, 0, scores)) == expected


def test_siblings_are_of_the_same_task_and_did_something(build: Make) -> None:
    learner = build("sdpo", threshold=0.5)
    backbone = learner.context.backbone
    mixed = [*group(backbone, 0, (0.0, 0.5)), *group(backbone, 1, (1.0, 0.0, None))]
    assert attempts(learner, mixed)[:4] == [1, None, None, 0]
    idle = [replace(e, actions=()) for e in group(backbone, 0, (1.0, 1.0))]
    assert learner.contexts(idle) == [None, None]


def test_a_step_without_a_success_is_skipped_and_says_so(build: Make) -> None:
    learner = build("sdpo")
    before = state(learner)
    metrics = learner.update(group(learner.context.backbone, 0, (0.0, 0.5)))
    assert metrics == {
        "context_share": 0.0,
        "trained_episodes": 0.0,
        "skipped": 1.0,
        "solved_groups": 0.0,
    }
    assert same(before, state(learner))
    metrics = learner.update(step(learner.context.backbone))
    assert (metrics["solved_groups"], metrics["context_share"]) == (1.0, 7 / 8)


CHECKS = (Check("it is lent", False, "KeyError: 7"), Check("it is there", True))
FEEDBACK = "- it is lent: KeyError: 7"


def prompts(learner: Any, episodes: list[Any]) -> list[str]:
    """What the teacher of each episode reads before the first answer; nothing where none is."""
    backbone, texts = learner.context.backbone, []
    for episode, values in zip(episodes, learner.contexts(episodes), strict=True):
        if values is None:
            texts.append("")
            continue
        row = learner._sample(episode, values).teacher
        prefix = len(row.ids) - len(episode.token_ids) + episode.prefix_len
        texts.append(backbone.decode(row.ids[:prefix].tolist()))
    return texts


@pytest.mark.parametrize(
    ("feedback", "scores", "solution", "told"),
    [
        ("off", (0.0, 0.0), [False, False], [False, False]),
        ("off", (0.0, 1.0), [True, False], [False, False]),
        ("alone", (0.0, 0.0), [False, False], [True, True]),
        ("alone", (0.0, 1.0, 1.0), [True] * 3, [False] * 3),
        ("beside", (0.0, 1.0, 1.0), [True] * 3, [True, False, False]),
        ("beside", (0.0, 1.0), [True, False], [True, False]),  # nothing is wrong with a success
    ],
)
def test_feedback_is_in_the_teachers_prompt_only_where_it_is_asked_for(
    build: Make, feedback: str, scores: tuple[float, ...], solution: list[bool], told: list[bool]
) -> None:
    learner = build("sdpo", feedback=feedback)
    episodes = [
        replace(e, outcome=replace(e.outcome, checks=CHECKS))
        for e in group(learner.context.backbone, 0, scores)
    ]
    found = prompts(learner, episodes)
    assert ["Correct solution:" in text for text in found] == solution
    assert [FEEDBACK in text for text in found] == told
    assert not any("it is there" in text for text in found if "find(" not in text)
    assert all(make_task(0).instruction in text for text in found if text)
    views = [learner.token_view(e, episodes) for e in episodes]
    assert [view is not None and FEEDBACK in view.context for view in views] == told
    assert learner.update(episodes)["trained_episodes"] == sum(map(bool, found))


def test_feedback_is_that_on_the_episode_itself(build: Make) -> None:
    learner = build("sdpo", feedback="beside")
    episodes = [
        replace(e, outcome=replace(e.outcome, checks=(Check(f"check {e.attempt}", False),)))
        for e in group(learner.context.backbone, 0, (0.0, 0.5))
    ]
    assert [x["feedback"] for x in learner.contexts(episodes)] == ["- check 0", "- check 1"]
    unchecked = group(learner.context.backbone, 0, (0.0, 0.0))
    assert learner.contexts(unchecked) == [None, None]


# -- the averaged teacher ------------------------------------------------------------------------


def disturbed(kind: str) -> Backbone:
    """A backbone whose student has moved away from the base."""
    backbone = make_backbone(kind=kind)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in backbone.student_parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return backbone


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_rate_0_stays_and_rate_1_copies_the_student(kind: str) -> None:
    backbone = disturbed(kind)
    student, base = backbone.merged_student_weights(), backbone.base.state_dict()
    for rate in (0.0, 0.25, 1.0):
        teacher = AveragedTeacher(backbone, rate)
        teacher.follow()
        for name, mine in teacher.model.state_dict().items():
            expected = (1 - rate) * base[name] + rate * student[name]
            assert torch.allclose(mine, expected, atol=1e-6)


def test_the_average_of_an_adapter_is_that_of_its_product() -> None:
    backbone, ids = disturbed("lora"), torch.arange(20, 40)[None]
    teacher = AveragedTeacher(backbone, 1.0)
    teacher.follow()
    with torch.no_grad():
        assert torch.allclose(teacher.model(ids).logits, backbone.student(ids).logits, atol=1e-4)


@pytest.mark.parametrize("name", ["sdft", "sdpo"])
def test_the_average_follows_after_each_step_and_not_after_a_skipped_one(
    name: str, build: Make
) -> None:
    learner = build(name, ema_rate=0.5)
    backbone = learner.context.backbone
    start = backbone.base.state_dict()
    learner.update(step(backbone))
    student = backbone.merged_student_weights()
    average = learner.state_dict()["average"]
    moved = [n for n in average if not torch.equal(average[n], start[n])]
    assert len(moved) == len(average)
    for key, value in average.items():
        assert torch.allclose(value, (start[key] + student[key]) / 2, atol=1e-6)
    with torch.no_grad():
        backbone.student_parameters()[0][5] = float("inf")
    assert learner.update(step(make_backbone(kind="full")))["skipped"] == 1
    assert same(average, learner.state_dict()["average"])


def test_the_teacher_is_what_the_option_says(build: Make) -> None:
    assert build("opsd").state_dict()["average"] is None
    assert build("sdft", teacher="base").state_dict()["average"] is None
    assert build("sdpo").state_dict()["average"] is not None


@each
def test_the_teacher_reads_what_tools_said(name: str, build: Make) -> None:
    """A loss mask is no attention mask: the teacher sees tokens that are not supervised."""
    losses = []
    for text in ("it is there", "gone with it"):
        learner = build(name)
        backbone = learner.context.backbone
        episodes = step(backbone)
        said, other = spelled(backbone, "t"), backbone.encode(text)[:1]
        changed = []
        for e in episodes:
            ids = e.token_ids.copy()
            reply = np.flatnonzero(~e.loss_mask & (e.turn_index == 1))[5]
            ids[reply] = (other if text.startswith("gone") else said)[0]
            changed.append(replace(e, token_ids=ids))
        losses.append(learner.update(changed)["loss"])
    assert losses[0] != losses[1]
