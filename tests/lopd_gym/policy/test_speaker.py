"""A local model that holds plain conversations."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lopd_gym.episode import GREEDY
from lopd_gym.errors import DataError, InfrastructureError
from lopd_gym.messages import Message
from lopd_gym.policy.model_policy import ModelPolicy
from lopd_gym.policy.speaker import Speaker, load_speaker
from lopd_gym.tasks import Task
from tests.lopd_gym.policy.models import make_backbone

LINES = ("Who are you?", "And then?", "Good bye.")


def talk(speaker: Speaker, name: str) -> list[str]:
    key, first = speaker.begin(f"You are {name}.", LINES[0])
    rest = [speaker.answer(key, line) for line in LINES[1:]]
    speaker.end(key)
    return [first, *rest]


def test_it_says_what_the_base_says_greedily():
    backbone = make_backbone()
    policy = ModelPolicy(backbone, weights="base", sampling=GREEDY, max_new_tokens=12)
    messages = (Message("system", "You are Emma."), Message("user", LINES[0]))
    policy.begin(0, Task("t", "test", messages), (), seed=5)
    expected = []
    for line in (*LINES[1:], ""):
        turns = []
        while not turns:
            turns = policy.advance()
        expected.append(turns[0].message.text.strip())
        policy.observe(0, (Message("user", line),))
    said = talk(Speaker(backbone, max_new_tokens=12), "Emma")
    assert said == expected
    assert any(said)


def test_threads_hear_what_one_alone_would():
    speaker = Speaker(make_backbone(), max_new_tokens=12)
    names = [f"number {n}" for n in range(8)]
    alone = [talk(speaker, name) for name in names]
    assert len({tuple(lines) for lines in alone}) > 1
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda name: talk(speaker, name), names)) == alone


def test_a_full_context_is_no_empty_answer():
    speaker = Speaker(make_backbone(), max_new_tokens=8)
    speaker._policy._max_context = 40
    with pytest.raises(InfrastructureError, match="context is full"):
        talk(speaker, "a user with a very long role" * 10)


def test_a_model_is_loaded_once_and_an_absent_one_is_named():
    assert load_speaker("tiny") is load_speaker("tiny")
    with pytest.raises(DataError, match="absent-model"):
        load_speaker("./absent-model")
