"""One LOPD step on the shipped tiny policy: who learns what from whom."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lopd_envs.envscaler.starter import StarterEnv
from lopd_learners import forward
from lopd_learners.forward import TokenRow, log_probs_at, supervised_states
from lopd_learners.lopd import LOPD, LOPDConfig
from lopd_learners.lopd.memory import teacher_row

from lopd_gym.bank import Bank, experience_from, get_embedder
from lopd_gym.episode import GREEDY, Episode, Sampling
from lopd_gym.errors import UsageError
from lopd_gym.learner import LearnerContext
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.base import Prompt
from lopd_gym.policy.model_policy import ModelPolicy, task_prompt
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from lopd_gym.tasks import Outcome, Termination


def load() -> Backbone:
    return Backbone.load("tiny", student=StudentConfig(kind="full"))


def play(policy: Any, first: int, count: int) -> list[Episode]:
    tasks = StarterEnv().tasks("train")
    with AgentLoop(StarterEnv, policy, Sampling()) as loop:
        return loop.play([Job(tasks[i].id, i) for i in range(first, first + count)])


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    policy = ModelPolicy(load(), weights="base", sampling=Sampling(), max_new_tokens=48)
    return play(policy, 100, 16)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Bank:
    made = Bank.open(tmp_path_factory.mktemp("bank"), get_embedder("hashing"))
    solved = play(ScriptedPolicy(oracle(StarterEnv())), 0, 132)
    made.add([x for e in solved if (x := experience_from(e)) is not None])
    return made


def learner(bank: Bank, folder: Path, **changes: Any) -> LOPD:
    config = LOPDConfig(**{**LOPD.presets["tiny"], "cold_start_steps": 0, **changes})
    return LOPD(config, LearnerContext(load(), bank, 0, folder))


def weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_step_moves_student_and_composer_and_never_the_teacher(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    lopd = learner(bank, tmp_path)
    backbone = lopd.context.backbone
    base, student = weights(backbone.base), weights(backbone.student)
    composer = weights(lopd.composer)
    metrics = lopd.update(episodes)
    assert same(base, weights(backbone.base))
    assert not same(student, weights(backbone.student))
    assert not same(composer, weights(lopd.composer))
    assert metrics["anchor"] == 0.0
    assert metrics["skipped"] == 0.0
    assert metrics["self_hit_rate"] == 0.0
    assert metrics["loss_student"] > 0
    assert all(np.isfinite(v) for v in metrics.values())


def test_each_loss_has_a_gradient_on_its_own_parameters_only(
    bank: Bank, episodes: list[Episode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lopd = learner(bank, tmp_path)
    seen: list[tuple[bool, bool, bool]] = []

    def look(optimiser: Any, parameters: Any, max_norm: float) -> float:
        parts = (lopd.context.backbone.student, lopd.composer, lopd.context.backbone.base)
        seen.append(tuple(any(p.grad is not None for p in m.parameters()) for m in parts))  # type: ignore[arg-type]
        optimiser.zero_grad(set_to_none=True)
        return 1.0

    monkeypatch.setattr(lopd, "_step", look)
    lopd.update(episodes)
    assert seen == [(True, False, False), (False, True, False)]


def test_teacher_and_student_are_supervised_on_the_same_tokens(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    lopd = learner(bank, tmp_path)
    student, teacher = teacher_row(lopd.context.backbone, episodes[0], 16, lopd.config)
    assert torch.equal(student.targets, teacher.targets)
    assert len(teacher.ids) > len(student.ids)
    assert student.supervised.sum() == episodes[0].sampled_tokens


def test_repeated_steps_bring_the_student_to_the_teacher(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    lopd = learner(bank, tmp_path, composer="frozen")
    losses = [lopd.update(episodes)["loss_student"] for _ in range(6)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(("score", "rises"), [(1.0, True), (0.0, False)])
def test_the_margin_raises_what_succeeded_and_lowers_what_failed(
    bank: Bank, episodes: list[Episode], tmp_path: Path, score: float, rises: bool
) -> None:
    lopd = learner(bank, tmp_path, anchor=0.0, beta=1e4, beta_cap=None, composer_lr=1e-4)
    ended = Outcome(score, score == 1, Termination.SUBMITTED)
    same_end = [replace(e, outcome=ended) for e in episodes[:4]]
    examples = [x for e in same_end if (x := lopd._example(e)) is not None]

    def mean_log_prob() -> float:
        with torch.no_grad():
            rows = lopd._with_latents(examples)
            return float(torch.cat(lopd._sampled_log_probs(rows)).mean())

    before = mean_log_prob()
    lopd.update(same_end)
    assert (mean_log_prob() > before) is rises


def test_a_gradient_that_is_not_finite_skips_everything(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    lopd = learner(bank, tmp_path)
    student = lopd.context.backbone.student
    with torch.no_grad():
        next(student.parameters()).view(-1)[0] = float("nan")
    others, composer = weights(student)[1:], weights(lopd.composer)
    metrics = lopd.update(episodes)
    assert metrics["skipped"] == 1.0
    assert same(others, weights(student)[1:])
    assert same(composer, weights(lopd.composer))
    assert lopd.beta == 0.0


def test_failed_and_empty_episodes_are_left_out(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    lopd = learner(bank, tmp_path)
    broken = replace(
        episodes[0], outcome=Outcome(None, False, Termination.INFRASTRUCTURE, error="lost")
    )
    silent = replace(episodes[1], loss_mask=np.zeros_like(episodes[1].loss_mask))
    assert lopd.update([broken, silent])["trained_episodes"] == 0.0
    assert lopd.update([])["skipped"] == 1.0
    assert lopd.update([broken, *episodes[2:4]])["trained_episodes"] == 2.0


def test_a_restored_learner_goes_on_exactly_as_the_first_would(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    first = learner(bank, tmp_path)
    first.update(episodes)
    state = copy.deepcopy(first.state_dict())
    student = {k: v.clone() for k, v in first.context.backbone.student_state().items()}
    second = learner(bank, tmp_path)
    second.context.backbone.load_student_state(student)
    second.load_state_dict(state)
    assert first.update(episodes) == second.update(episodes)
    assert same(weights(first.composer), weights(second.composer))


def test_switches_for_ablations(bank: Bank, episodes: list[Episode], tmp_path: Path) -> None:
    frozen = learner(bank, tmp_path, composer="frozen")
    before = weights(frozen.composer)
    frozen.update(episodes)
    assert same(before, weights(frozen.composer))
    free = learner(bank, tmp_path, beta_rate=0.0)
    free.update(episodes)
    assert free.beta == 0.0
    own = play(ModelPolicy(load(), weights="base", max_new_tokens=48), 0, 4)
    assert learner(bank, tmp_path, self_retrieval=True).update(own)["self_hit_rate"] == 1.0


def test_results_do_not_depend_on_the_micro_batch(
    bank: Bank, episodes: list[Episode], tmp_path: Path
) -> None:
    small, large = (
        learner(bank, tmp_path, micro_batch_tokens=n).update(episodes) for n in (300, 100_000)
    )
    for name in small:
        assert small[name] == pytest.approx(large[name], rel=1e-3, abs=1e-5), name


def test_a_composer_of_another_shape_is_refused(bank: Bank, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="shape"):
        learner(bank, tmp_path, latents=4)
    with pytest.raises(UsageError, match="No pretrained composer"):
        learner(bank, tmp_path, composer_init=str(tmp_path))


def test_the_composer_reads_a_batch_as_it_reads_one(bank: Bank, tmp_path: Path) -> None:
    composer = learner(bank, tmp_path).composer
    items = list(bank)[:5]
    texts = [x.text for x in items]
    with torch.no_grad():
        together = composer([x.instruction for x in items], texts)
        alone = [composer([x.instruction], [x.text])[0] for x in items]
    for one, other in zip(together, alone, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_the_encoders_adapter_never_touches_the_teachers_pass(bank: Bank, tmp_path: Path) -> None:
    plain, with_adapter = load(), learner(bank, tmp_path)
    with torch.no_grad():
        for parameter in with_adapter.composer.lora:
            parameter.add_(1.0)
        ids = torch.arange(40)[None]
        assert torch.equal(plain.base(ids).logits, with_adapter.context.backbone.base(ids).logits)


def test_latents_of_known_embeddings_equal_the_id_path() -> None:
    backbone = load()
    ids = np.arange(60, 90, dtype=np.int32)
    supervised = np.ones(30, bool)
    supervised[0] = False
    known = backbone.base.get_input_embeddings()(torch.arange(70, 78)).detach()
    blanked = ids.copy()
    blanked[10:18] = 0
    with torch.no_grad():
        direct = supervised_states(backbone.base, [TokenRow(ids, supervised)])
        injected = supervised_states(backbone.base, [TokenRow(blanked, supervised, known, 10)])
    assert torch.equal(direct, injected)


def test_latents_of_known_embeddings_play_the_same_episode() -> None:
    backbone = load()
    embeddings = backbone.base.get_input_embeddings()

    def prompt(task: Any, tools: Any) -> Prompt:
        plain = task_prompt(backbone, task, tools)
        known = embeddings(torch.tensor(plain.ids[5:15])).detach()
        return replace(
            plain, ids=[*plain.ids[:5], *[0] * 10, *plain.ids[15:]], latents=known, latent_start=5
        )

    by_ids = ModelPolicy(backbone, weights="base", sampling=GREEDY, max_new_tokens=48)
    by_latents = ModelPolicy(
        backbone, weights="base", sampling=GREEDY, max_new_tokens=48, make_prompt=prompt
    )
    for one, other in zip(play(by_ids, 0, 8), play(by_latents, 0, 8), strict=True):
        assert one.transcript == other.transcript


def test_positions_are_shifted_by_one_and_chunks_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbone = load()
    ids = np.array([5, 6, 7, 8, 9, 10], np.int32)
    supervised = np.array([0, 0, 1, 0, 1, 1], bool)
    row = TokenRow(ids, supervised)
    assert row.targets.tolist() == [7, 9, 10]
    full = backbone.base(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].log_softmax(-1)
    expected = [full[1, 7].item(), full[3, 9].item(), full[4, 10].item()]
    for elements in (1 << 24, 1):
        monkeypatch.setattr(forward, "_CHUNK_ELEMENTS", elements)
        states = supervised_states(backbone.base, [row, row])
        found = log_probs_at(backbone.base, states, row.targets.repeat(2)[:, None])
        assert found.squeeze(-1).tolist() == pytest.approx(expected * 2, abs=1e-5)
