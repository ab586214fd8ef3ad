"""The starter suite as a Gymnasium environment."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from gymnasium.utils.env_checker import check_env
from lopd_envs.envscaler.starter import HELD_OUT_DOMAINS, TRAIN_DOMAINS, StarterEnv, solve

from lopd_gym.bank.trace import write_trace
from lopd_gym.errors import UsageError
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Outcome, Termination

GOLDEN_HASH = "2f2b40fcd5142276"


def run(env: StarterEnv, task_id: str, turns: list[AssistantMessage]) -> Outcome:
    env.reset(options={"task": task_id})
    for turn in turns:
        *_, info = env.step(turn)
    outcome: Outcome = info["outcome"]
    return outcome


def test_gymnasium_accepts_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(StarterEnv(), skip_render_check=True)


def test_data_hash_is_what_it_was() -> None:
    """When the suite changes on purpose: renew this, and train the tiny policy again."""
    assert StarterEnv().data_hash() == GOLDEN_HASH


def test_oracle_and_doing_nothing_on_every_split() -> None:
    for split in StarterEnv().splits():
        env = StarterEnv(split)
        for task in env.tasks(split)[:100]:
            solved = run(env, task.id, list(env.oracle(task)))
            assert solved.success
            assert solved.termination is Termination.SUBMITTED
            assert run(env, task.id, [AssistantMessage(text="Task Completed")]).score == 0.0


def test_splits_have_their_domains_in_turn() -> None:
    env = StarterEnv()
    assert env.splits() == ("train", "test", "test_domains")
    assert [len(env.tasks(s)) for s in env.splits()] == [16_000, 1_600, 400]
    head = Counter(task.group for task in env.tasks("test")[:24])
    assert head == dict.fromkeys(TRAIN_DOMAINS, 3)
    assert {task.group for task in env.tasks("test_domains")[:10]} == set(HELD_OUT_DOMAINS)
    assert env.tasks("train")[-1].id == f"{TRAIN_DOMAINS[-1]}/train/001999"
    with pytest.raises(IndexError):
        env.tasks("train")[16_000]


def test_tasks_are_found_by_id_in_their_own_split_only() -> None:
    env = StarterEnv("test")
    for task in env.tasks("test")[:20]:
        assert env.find(task.id) == task
    for wrong in (
        "library/train/000001",
        "library/test/1",
        "library/test/000200",
        "garage/test/000001",
        "library",
        "",
    ):
        with pytest.raises(UsageError, match="ids look like"):
            env.find(wrong)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'test'"):
        StarterEnv("tset")


def trace(task_id: str, turns: list[AssistantMessage]) -> str:
    env = StarterEnv()
    env.reset(options={"task": task_id})
    actions = []
    for turn in turns:
        replies, *_ = env.step(turn)
        actions += [
            (c.name, c.arguments, r.content) for c, r in zip(turn.tool_calls, replies, strict=True)
        ]
    return write_trace(actions)


def test_a_trace_shows_ids_endings_and_broken_rules() -> None:
    task = StarterEnv().find("library/train/000000")
    assert trace(task.id, solve(task, (1, 0))) == (
        '1. find_loan(member="Luis",title="Voyage") -> id=L70,status=out\n'
        '2. pause_loan(id="L70") -> ok=True\n'
        '3. notify_member(id="L70",by="mail") -> ok=True'
    )
    assert trace(task.id, solve(task, (1, 1))).endswith(
        '3. notify_member(id="L70",by="phone") -> status=flagged,error=house rule: by is mail'
    )


def test_twelve_turns_are_the_limit() -> None:
    env = StarterEnv()
    call = AssistantMessage(tool_calls=(ToolCall("find_loan", {"member": "X", "title": "Y"}),))
    outcome = run(env, "library/train/000000", [call] * 12)
    assert outcome.termination is Termination.STEP_LIMIT
    assert outcome.score == 0.0


def test_label_names_the_data_set() -> None:
    assert (StarterEnv().name, StarterEnv().label) == ("envscaler", "envscaler:starter")
