"""The teacher as a policy: it plays with the base's weights and latents in its prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lopd_learners.forward import TokenRow, log_probs_at, supervised_states
from lopd_learners.lopd.example import latents_of, make_examples

from lopd_gym.bank import Bank
from lopd_gym.episode import GREEDY, Sampling
from lopd_gym.policy.base import Policy, Recording
from tests.lopd_learners.lopd.setting import TOOLS, make_episode, make_learner, make_task


def play(policy: Policy, number: int) -> Recording:
    """Play one turn."""
    policy.begin(0, make_task(number), TOOLS, seed=1)
    while not policy.advance():
        pass
    return policy.end(0)


def test_it_samples_from_the_distribution_that_the_learner_teaches(
    bank: Bank, tmp_path: Path
) -> None:
    learner = make_learner(bank, tmp_path)
    backbone = learner.context.backbone
    plain = Sampling(temperature=1.0, top_p=1.0, top_k=0)
    recording = play(learner.teacher(plain, max_new_tokens=12), 1)
    (example,) = make_examples(
        [make_episode(backbone, 1)], backbone, learner.retriever, learner.config
    )
    (latents,) = latents_of(learner.composer, [example])
    row = TokenRow(recording.token_ids, recording.loss_mask, latents, example.teacher.latent_start)
    with torch.no_grad():
        states = supervised_states(backbone.base, [row])
        expected = log_probs_at(backbone.base, states, row.targets[:, None])[:, 0]
    assert 1 <= len(expected) <= 12
    drawn = torch.from_numpy(recording.logprobs[recording.loss_mask])
    assert torch.allclose(drawn, expected, atol=1e-4)
    # The same prompt as in training, up to the end of the first user message.
    prefix = slice(recording.prefix_len)
    assert recording.token_ids[prefix].tolist() == example.teacher.ids[prefix].tolist()


def test_the_students_updates_do_not_reach_it(bank: Bank, tmp_path: Path) -> None:
    learner = make_learner(bank, tmp_path, composer="frozen", student_lr=0.1)
    policy = learner.teacher(GREEDY, max_new_tokens=8)
    before = play(policy, 1)
    learner.update([make_episode(learner.context.backbone, n) for n in range(3)])
    assert play(policy, 1).token_ids.tolist() == before.token_ids.tolist()
    assert policy.version == 0


@pytest.mark.parametrize("other_group", [False, True])
def test_whose_experiences_it_is_shown(
    bank: Bank, tmp_path: Path, other_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make_learner(bank, tmp_path)
    groups: set[str] = set()
    memories = learner.composer.memories

    def look(tasks):  # type: ignore[no-untyped-def]
        groups.update(item.group for _, items in tasks for item in items)
        return memories(tasks)

    monkeypatch.setattr(learner.composer, "memories", look)
    policy = learner.teacher(GREEDY, other_group=other_group, max_new_tokens=2)
    for number in range(6):
        groups.clear()
        play(policy, number)
        if other_group:
            assert groups == {f"group-{1 - number % 2}"}
        else:
            assert groups
