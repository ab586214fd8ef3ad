"""Which experiences are shown, and where latents go in the prompt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.lopd.memory import Retriever, teacher_prompt, teacher_row

from lopd_gym.bank import Bank
from lopd_gym.errors import UsageError
from lopd_gym.messages import Message
from lopd_gym.policy.backbone import Backbone
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.lopd.setting import OPTIONS, TOOLS, make_episode, make_task

CONFIG = LOPDConfig(**OPTIONS)


@pytest.fixture(scope="module", params=["qwen3", "olmo3"])
def backbone(request: pytest.FixtureRequest) -> Backbone:
    return make_backbone(chat=request.param)


def test_a_task_is_not_shown_its_own_past_unless_asked(bank: Bank) -> None:
    task = make_task(1)
    own = replace_config(self_retrieval=True)
    shown = Retriever(bank, CONFIG).find(task.instruction, task.id, "books")
    assert len(shown) == CONFIG.items
    assert task.id not in {x.task_id for x in shown}
    # Neither under another wording of the task, nor as another task of the same wording.
    for said, name in ((task.instruction + " Please.", task.id), (task.instruction, "another")):
        assert task.id not in {x.task_id for x in Retriever(bank, CONFIG).find(said, name)}
    assert Retriever(bank, own).find(task.instruction, task.id)[0].task_id == task.id
    assert Retriever(bank, CONFIG).find(task.instruction, task.id, "another environment") == ()


def test_the_control_shows_other_groups_only(bank: Bank) -> None:
    retriever = Retriever(bank, CONFIG)
    seen = {x.group for seed in range(9) for x in retriever.of_other_group("group-0", seed)}
    assert seen == {"group-1"}
    first = retriever.of_other_group("group-0", 5)
    assert first == retriever.of_other_group("group-0", 5)
    assert len(set(first)) == CONFIG.items
    many = Retriever(bank, replace_config(items=50)).of_other_group("group-0", 5)
    assert len(many) == 3


def replace_config(**changes: object) -> LOPDConfig:
    return CONFIG.model_copy(update=changes)


def test_latents_stand_in_the_first_user_message(backbone: Backbone) -> None:
    messages = (*make_task(1).messages, Message("user", "And please be quick."))
    whole, prefix = teacher_prompt(backbone, messages, TOOLS, 4, CONFIG)
    assert whole.ids[: len(prefix.ids)] == prefix.ids
    assert whole.prefix_len == prefix.prefix_len == len(prefix.ids)
    start = prefix.latent_start
    places = prefix.ids[start : start + 4]
    assert set(places) == {backbone.tokenizer.pad_token_id}
    assert backbone.tokenizer.pad_token_id not in prefix.ids[:start] + prefix.ids[start + 4 :]
    without = backbone.decode(whole.ids[:start] + whole.ids[start + 4 :])
    framed = f"{CONFIG.framing_before}{CONFIG.framing_after}{messages[1].content}"
    shown = [messages[0], Message("user", framed), messages[2]]
    assert without == "".join(backbone.chat.opening(shown, TOOLS))
    assert backbone.decode(whole.ids[:start]).endswith(CONFIG.framing_before)


def test_the_teacher_reads_exactly_what_the_student_sampled(backbone: Backbone) -> None:
    episode = make_episode(backbone, 1)
    assert backbone.encode(backbone.decode(episode.token_ids.tolist())) != list(episode.token_ids)
    student, teacher = teacher_row(backbone, episode, 6, CONFIG)
    assert np.array_equal(student.ids, episode.token_ids)
    assert np.array_equal(student.ids[student.supervised], teacher.ids[teacher.supervised])
    suffix = len(episode.token_ids) - episode.prefix_len
    assert np.array_equal(teacher.ids[-suffix:], episode.token_ids[-suffix:])
    assert np.array_equal(teacher.supervised[-suffix:], episode.loss_mask[-suffix:])
    assert not teacher.supervised[:-suffix].any()


def test_long_episodes_are_cut_off_for_both(backbone: Backbone) -> None:
    episode = make_episode(backbone, 1)
    first = int(np.flatnonzero(episode.loss_mask)[0])
    student, teacher = teacher_row(backbone, episode, 6, replace_config(max_tokens=first + 2))
    assert len(student.ids) == first + 2
    assert (
        student.targets.tolist()
        == teacher.targets.tolist()
        == list(episode.token_ids[first : first + 2])
    )


def test_another_prefix_is_noticed(backbone: Backbone) -> None:
    episode = make_episode(backbone, 1)
    mask = episode.loss_mask.copy()
    mask[3] = True  # a token of the prefix cannot have been sampled
    with pytest.raises(AssertionError, match="task-1"):
        teacher_row(backbone, replace(episode, loss_mask=mask), 6, CONFIG)


def test_a_task_that_holds_the_sentinel_is_refused(backbone: Backbone) -> None:
    from lopd_learners.lopd.memory import _SENTINEL

    with pytest.raises(UsageError, match="exactly once"):
        teacher_prompt(backbone, (Message("user", f"a{_SENTINEL}b"),), TOOLS, 4, CONFIG)
