"""Episodes with a simulated user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lopd_envs.acebench import AceBenchEnv, make_acebench
from lopd_envs.acebench.corpus import LANGUAGES, MULTI_TURN
from lopd_envs.acebench.env import LiveUserEnv

from lopd_gym.episode import Sampling
from lopd_gym.errors import DataError, UsageError
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from lopd_gym.policy.speaker import Speaker
from lopd_gym.tasks import Outcome, Termination
from tests.lopd_envs.acebench.test_agent import FINISH, play
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_gym.policy.server import Answer, chat_server, completion, error


@pytest.fixture(scope="module", params=LANGUAGES)
def env(request: pytest.FixtureRequest, acebench_folder: Path) -> AceBenchEnv:
    return make_acebench(MULTI_TURN, acebench_folder, request.param, user="scripted")


def test_planned_solutions_pass(env: AceBenchEnv) -> None:
    for task in env.tasks(MULTI_TURN):
        outcome = play(env, task.id, *env.oracle(task))
        assert outcome.measures == {"official": 1.0, "strict": 1.0, "process": 1.0}, task.id


def test_doing_nothing_fails_also_where_nothing_has_to_change(env: AceBenchEnv) -> None:
    for task in env.tasks(MULTI_TURN):
        assert play(env, task.id, FINISH).measures["official"] == 0.0


def test_a_misspelt_app_lets_an_idle_agent_pass_officially_only(env: AceBenchEnv) -> None:
    looked = AssistantMessage(tool_calls=(ToolCall("view_reminder_by_title", {"title": "x"}),))
    outcome = play(env, "agent_multi_turn_7", looked, FINISH)
    assert (outcome.measures["official"], outcome.measures["strict"]) == (1.0, 0.0)


def test_the_user_speaks_and_ends_the_episode(env: AceBenchEnv) -> None:
    task = env.tasks(MULTI_TURN)[0]
    assert env.label.endswith(":scripted-user")
    messages, info = env.reset(seed=0, options={"task": task.id})
    assert info["task"].messages == messages
    assert messages[1].content == task.data["row"].fields["question"]
    assert task.data["row"].fields["question"] not in str(task.messages)
    replies, _, ended, *_ = env.step(AssistantMessage(text="Shall I?"))
    assert (replies[0].role, ended) == ("user", False)
    *_, ended, _, info = env.step(AssistantMessage(text="Done."))
    outcome: Outcome = info["outcome"]
    assert ended
    assert outcome.termination is Termination.USER_STOP


def test_nothing_with_a_user_starts_without_one(acebench_folder: Path) -> None:
    for split in (MULTI_TURN, "agent", "all"):
        with pytest.raises(UsageError, match=r"env\.user=openai:NAME"):
            make_acebench(split, acebench_folder)
    without, with_user = (
        make_acebench("train", acebench_folder, user=u) for u in (None, "scripted")
    )
    categories = [{task.group for task in env.tasks("train")} for env in (without, with_user)]
    assert categories[1] - categories[0] == {MULTI_TURN}
    with pytest.raises(DataError, match="absent-model"):
        make_acebench(MULTI_TURN, acebench_folder, user="./absent-model")
    with pytest.raises(UsageError, match=r"env\.user_url"):
        make_acebench(MULTI_TURN, acebench_folder, user="openai:gpt-4o")


def test_a_model_behind_an_endpoint_plays_the_user(acebench_folder: Path) -> None:
    def user(request: dict[str, Any]) -> Answer:
        said = [m["content"] for m in request["messages"] if m["role"] == "assistant"]
        return completion(
            ["<think>so</think>I am Grace.", "To Frank.", "finish conversation"][len(said)]
        )

    with chat_server(user) as server:
        env = make_acebench(MULTI_TURN, acebench_folder, user="openai:u", user_url=server.url)
        assert isinstance(env, LiveUserEnv)
        assert env.label == "acebench:en:openai:u-user"
        messages, _ = env.reset(seed=0, options={"task": "agent_multi_turn_0"})
        assert messages[1].content == "I am Grace."
        replies, *_ = env.step(AssistantMessage(text="To whom?"))
        assert replies[0].content == "To Frank."
        *_, info = env.step(AssistantMessage(text="Sent."))
        assert info["outcome"].termination is Termination.USER_STOP
    system, greeting, first, question = server.requests[1]["messages"]
    assert "Frank" in system["content"]
    assert [m["role"] for m in (greeting, first, question)] == ["user", "assistant", "user"]
    assert (first["content"], question["content"]) == ("I am Grace.", "To whom?")


def test_a_user_that_breaks_is_no_score_of_zero(acebench_folder: Path) -> None:
    with chat_server(lambda _: error(400, "maximum context length")) as server:

        def make() -> AceBenchEnv:
            return make_acebench(MULTI_TURN, acebench_folder, user="openai:u", user_url=server.url)

        with AgentLoop(make, ScriptedPolicy(oracle(make())), Sampling()) as loop:
            episodes = loop.play([Job(f"agent_multi_turn_{n}", seed=n) for n in range(3)])
    assert all(e.failed and e.outcome.score is None for e in episodes)
    assert "context is full" in str(episodes[0].outcome.error)


def test_a_model_that_runs_here_plays_the_user(
    acebench_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaker = Speaker(make_backbone(), max_new_tokens=8)
    monkeypatch.setattr("lopd_gym.policy.speaker.load_speaker", lambda source: speaker)
    env = make_acebench(MULTI_TURN, acebench_folder, user="models/one")
    assert isinstance(env, LiveUserEnv)
    assert env.label == "acebench:en:one-user"
    heard = []
    for task_id in ("agent_multi_turn_0", "agent_multi_turn_0", "agent_multi_turn_1"):
        messages, _ = env.reset(seed=0, options={"task": task_id})
        replies, *_ = env.step(AssistantMessage(text="To whom?"))
        heard.append((messages[1].content, replies[0].content))
    assert heard[0] == heard[1]
    assert all(said for pair in heard for said in pair)
    env.finish(Termination.TIMEOUT)
    env.close()
    assert not speaker._policy._conversations
