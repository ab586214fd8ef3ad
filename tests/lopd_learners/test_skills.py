"""Skills: which one is shown, and who writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.skill_sd.endpoint import ask
from lopd_learners.skill_sd.skills import Skill, SkillBank
from lopd_learners.skill_sd.summarise import ask_base, by_model, by_rules, parse_skill

from lopd_gym.episode import Episode
from lopd_gym.errors import InfrastructureError, UsageError
from lopd_gym.messages import Message
from lopd_gym.tasks import Check
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.setting import (
    Make,
    group,
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


def test_the_bound_counts_what_was_shown_so_far() -> None:
    bank = SkillBank(exploration=1.0, most=8)
    for name in "ab":
        bank.add("task", skill(name))
    for number, score in ((0, 0.52), (1, 0.0), (0, 0.52), (0, 0.52)):
        bank.credit("task", number, score)
    # 0: 0.52 + sqrt(ln 4 / 3) = 1.200; 1: sqrt(ln 4 / 1) = 1.177; with ln 5 it would be 1
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


def test_a_model_is_asked_about_all_attempts_and_the_rules_step_in() -> None:
    episodes, asked = group(make_backbone(), 0, (1.0, 0.0)), []

    def answer(question: str) -> str:
        asked.append(question)
        return answers.pop()

    answers = ["no idea", 'Sure: {"worked": "a", "mistakes": "b", "workflow": "c"} Good luck!']
    summarise = by_model(answer)
    assert summarise(episodes) == Skill("a", "b", "c", episodes[0].instruction)
    assert "Attempt (score 1.0):\n1. find(id=0) -> it is there" in asked[0]
    assert "Attempt (score 0.0)" in asked[0]
    assert episodes[0].instruction in asked[0]
    assert summarise(episodes) == by_rules(episodes)
    assert summarise(episodes[1:]) is None
    assert len(asked) == 2


def test_the_base_model_is_asked_greedily(monkeypatch: Any) -> None:
    monkeypatch.setattr("lopd_learners.skill_sd.summarise._MAX_NEW_TOKENS", 8)
    backbone = make_backbone()
    prompt = "".join(backbone.chat.opening([Message("user", "What is next?")], ()))
    ids = backbone.encode(prompt)
    for _ in range(8):
        with torch.no_grad():
            logits = backbone.base(torch.tensor([ids])).logits
        ids.append(int(logits[0, -1].argmax()))
    assert not set(ids[-8:]) & backbone.stop_ids
    assert ask_base(backbone, "What is next?") == backbone.decode(ids[-8:])


class Endpoint(BaseHTTPRequestHandler):
    """An OpenAI-style server that answers what a test told it to."""

    replies: ClassVar[list[tuple[int, bytes]]] = []
    asked: ClassVar[list[tuple[str, Any, str | None]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body, self.headers["Authorization"]))
        status, reply = self.replies.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def endpoint(monkeypatch: Any) -> Iterator[str]:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    Endpoint.asked.clear()
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def said(content: Any) -> tuple[int, bytes]:
    return 200, json.dumps({"choices": [{"message": {"content": content}}]}).encode()


def test_a_model_behind_an_endpoint_writes_skills(build: Make, endpoint: str) -> None:
    written = {"worked": "a", "mistakes": "b", "workflow": "c"}
    Endpoint.replies[:] = [(503, b"busy"), said(json.dumps(written))]
    learner = build(
        "skill-sd", summariser="endpoint", endpoint=f"{endpoint}/", endpoint_model="wise"
    )
    learner.update(group(learner.context.backbone, 0, (1.0, 0.0)))
    (arm,) = learner.skills.state_dict()["task-0"]
    assert arm["skill"] == {**written, "instruction": "Find the red book number 0."}
    path, body, key = Endpoint.asked[1]
    assert (path, body["model"], key) == ("/v1/chat/completions", "wise", "Bearer secret")
    assert body["messages"][0]["content"].startswith("Below are attempts")


@pytest.mark.parametrize(
    "reply", [(404, b""), (200, b"{"), (200, b"[]"), (200, b"3"), said(None), said(["text"])]
)
def test_an_endpoint_without_an_answer_is_an_error_that_says_so(
    endpoint: str, reply: tuple[int, bytes]
) -> None:
    Endpoint.replies[:] = [reply] * 3
    with pytest.raises(InfrastructureError, match="gave no answer of the model 'wise' in 3 tries"):
        ask(endpoint, "wise", "What is next?")
    assert len(Endpoint.asked) == 3


def test_nobody_listens_and_no_address(build: Make, endpoint: str) -> None:
    with pytest.raises(InfrastructureError, match="check the address"):
        ask("http://127.0.0.1:9/v1", "wise", "What is next?")
    with pytest.raises(UsageError, match="endpoint"):
        build("skill-sd", endpoint="file:///etc/passwd")
