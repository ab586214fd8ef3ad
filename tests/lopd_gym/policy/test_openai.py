"""An OpenAI-style endpoint plays: tool calls, retries, rate limits, time-outs, clear errors."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from lopd_gym.cli.main import main
from lopd_gym.endpoint import ContextFull, Endpoint, Unreachable
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.episode import Episode, Sampling
from lopd_gym.errors import InfrastructureError, UsageError
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.messages import Message, ToolSpec
from lopd_gym.policy.openai import OpenAIPolicy, safe_names
from lopd_gym.run.build import load_backbone
from lopd_gym.run.settings import ModelSettings, RunSettings
from lopd_gym.tasks import Check, Task, Termination
from lopd_gym.tools import MethodTools, Toolset, tool
from tests.lopd_gym.policy.server import Answer, chat_server, completion, error, in_turn


class Counter(ToolEnv):
    """Count to three."""

    name: ClassVar[str] = "counter"

    def tasks(self, split: str) -> Sequence[Task]:
        opening = (Message("system", "You count."), Message("user", "Count to 3."))
        return [Task(f"count-{n}", split, opening) for n in range(8)]

    def open(self, task: Task, seed: int) -> Toolset:
        self.count = 0
        return MethodTools(self)

    @tool
    def add(self, number: int) -> int:
        """Add to the count.

        Args:
            number: What to add.
        """
        self.count += number
        return self.count

    def verify(self) -> Sequence[Check]:
        return [Check("three", self.count == 3)]


def play(
    url: str, tasks: int = 1, rules: EpisodeRules | None = None, **options: Any
) -> list[Episode]:
    options = {"pause_s": 0.01, "retries": 2, "timeout_s": 5.0} | options
    policy = OpenAIPolicy(Endpoint("m", url, **options), Sampling(0.5, 0.9), 64)
    with AgentLoop(
        lambda: Counter(rules=rules), policy, Sampling(), LoopLimits(concurrency=4)
    ) as loop:
        return loop.play([Job(f"count-{n}", seed=n) for n in range(tasks)])


def test_calls_and_results_go_back_and_forth() -> None:
    answers = in_turn(
        completion(None, ("add", {"number": 1}), ("add", {"number": 2})), completion("Done.")
    )
    with chat_server(answers) as server:
        (episode,) = play(server.url)
    assert episode.outcome.success
    assert episode.actions == (("add", {"number": 1}, "1"), ("add", {"number": 2}, "3"))
    first, second = server.requests
    assert first["path"] == "/v1/chat/completions"
    assert (first["model"], first["temperature"], first["top_p"]) == ("m", 0.5, 0.9)
    assert first["max_tokens"] == 64
    assert first["messages"] == [
        {"role": "system", "content": "You count."},
        {"role": "user", "content": "Count to 3."},
    ]
    (offered,) = first["tools"]
    assert offered["function"]["name"] == "add"
    assert offered["function"]["parameters"]["required"] == ["number"]
    asked, *results = second["messages"][2:]
    assert [call["id"] for call in asked["tool_calls"]] == ["id-0", "id-1"]
    assert results == [
        {"role": "tool", "tool_call_id": "id-0", "content": "1"},
        {"role": "tool", "tool_call_id": "id-1", "content": "3"},
    ]


def test_a_call_that_was_not_executed_gets_a_result_too() -> None:
    answers = in_turn(
        completion(None, ("add", {"number": 3}), ("add", {"number": 9})), completion("Done.")
    )
    with chat_server(answers) as server:
        (episode,) = play(server.url, rules=EpisodeRules(several_calls="first"))
    assert episode.outcome.success
    results = server.requests[1]["messages"][3:]
    assert [r["tool_call_id"] for r in results] == ["id-0", "id-1"]
    assert "not executed" in results[1]["content"]


@pytest.mark.parametrize(
    "arguments", ['{"number": ', "[1]", '{"number": NaN}', "[" * 50_000, '{"number": "\\ud800"}']
)
def test_unreadable_arguments_are_the_models_fault(arguments: str) -> None:
    answers = in_turn(
        completion(None, ("add", arguments)),
        completion(None, ("add", {"number": 3})),
        completion(""),
    )
    with chat_server(answers) as server:
        (episode,) = play(server.url)
    assert episode.outcome.success
    assert episode.parse_errors == 1
    said, answered = server.requests[1]["messages"][2:]
    assert "tool_calls" not in said
    assert answered["role"] == "user"
    assert "not readable" in answered["content"]


def test_reasoning_is_kept_apart_and_not_sent_back() -> None:
    answers = in_turn(
        completion("<think>three it is</think>\n", ("add", {"number": 3})),
        completion("Done.", reasoning_content="all done"),
    )
    with chat_server(answers) as server:
        (episode,) = play(server.url)
    reasons = [
        entry.get("reasoning") for entry in episode.transcript if entry["role"] == "assistant"
    ]
    assert reasons == ["three it is", "all done"]
    assert "three it is" not in json.dumps(server.requests[1])


def test_a_reply_that_was_cut_off_is_no_final_answer() -> None:
    answers = in_turn(completion("I think", finish="length"), completion("Done."))
    with chat_server(answers) as server:
        (episode,) = play(server.url)
    assert episode.parse_errors == 1
    assert episode.turns == 2


def test_limits_on_the_rate_are_waited_out() -> None:
    slept: list[float] = []
    answers = in_turn(
        error(429, "slow down", Retry_After="7"), error(429), error(503), completion("Done.")
    )
    with chat_server(answers) as server:
        (episode,) = play(server.url, retries=3, pause_s=1.0, sleep=slept.append)
    assert episode.outcome.termination is Termination.SUBMITTED
    for pause, least in zip(slept, (7.0, 2.0, 4.0), strict=True):
        assert least <= pause <= least * 1.25


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            error(429, "quota"),
            "limits the rate of requests (HTTP 429: quota); gave up after 3 tries",
        ),
        (error(500), "failed (HTTP 500)"),
        ((200, {}, b"<html>gateway</html>"), "sent no chat completion"),
        ((200, {}, b'{"choices": []}'), "sent no chat completion"),
        ((200, {}, b"[" * 100_000), "sent no chat completion"),
    ],
)
def test_trouble_that_stays_fails_the_episode_and_scores_nothing(
    answer: Answer, words: str
) -> None:
    with chat_server(lambda _: answer) as server:
        (episode,) = play(server.url)
        assert len(server.requests) == 3
    assert episode.failed
    assert episode.outcome.score is None
    assert words in str(episode.outcome.error)


def test_one_bad_conversation_costs_one_episode() -> None:
    def answer(request: dict[str, Any]) -> Answer:
        if request["seed"] == 2:
            return error(500)
        done = request["messages"][-1]["role"] == "tool"
        return completion("Done.") if done else completion(None, ("add", {"number": 3}))

    with chat_server(answer) as server:
        episodes = play(server.url, tasks=8)
    assert [e.failed for e in episodes] == [n == 2 for n in range(8)]
    assert all(e.outcome.success for e in episodes if not e.failed)


def test_a_silent_endpoint_is_given_up_on() -> None:
    def silent(request: dict[str, Any]) -> Answer:
        time.sleep(1.0)
        return completion("late")

    with chat_server(silent) as server:
        endpoint = Endpoint("m", server.url, timeout_s=0.1, retries=1, pause_s=0.01)
        with pytest.raises(
            InfrastructureError, match=r"did not answer within 0.1 s; gave up after 2"
        ):
            endpoint.complete([])


def test_a_full_context_is_the_token_limit() -> None:
    full = error(400, "This model's maximum context length is 10 tokens")
    with chat_server(in_turn(completion(None, ("add", {"number": 3})), full)) as server:
        (episode,) = play(server.url)
        with pytest.raises(ContextFull):
            Endpoint("m", server.url).complete([])
    assert episode.outcome.termination is Termination.TOKEN_LIMIT
    assert episode.outcome.score == 1.0


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "set OPENAI_API_KEY to a key that it takes"),
        (403, "may use this model"),
        (404, "check --base-url and the model's name"),
        (400, "it does not take such a request"),
    ],
)
def test_a_refusal_stops_at_once(status: int, advice: str) -> None:
    with chat_server(lambda _: error(status, "No. ")) as server:
        with pytest.raises(UsageError, match=rf"HTTP {status}: No\): .*{advice}"):
            play(server.url)
        assert len(server.requests) == 1


def test_a_limit_under_its_newer_name_is_asked_for_once() -> None:
    def newer(request: dict[str, Any]) -> Answer:
        if "max_tokens" in request:
            return error(400, "Unsupported parameter: use 'max_completion_tokens' instead.")
        return completion("Done.")

    with chat_server(newer) as server:
        endpoint = Endpoint("m", server.url, retries=0)
        for _ in range(2):
            endpoint.complete([], max_tokens=7)
        limits = [request.get("max_completion_tokens") for request in server.requests]
    assert limits == [None, 7, 7]


def test_an_absent_endpoint_stops_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(UsageError, match=r"is not reachable .*check --base-url"):
        play(url)
    with pytest.raises(Unreachable):
        Endpoint("m", url, retries=0).complete([])


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "file:///etc/passwd", "ftp://x/v1", "http://"]
)
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(UsageError, match="address like http://"):
        Endpoint("m", url)


def test_the_key_is_sent_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with chat_server(in_turn(completion("Done."))) as server:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        Endpoint("m", server.url).complete([])
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        Endpoint("m", server.url + "/").complete([])
    assert server.keys == [None, "Bearer secret"]
    assert server.requests[1]["path"] == "/v1/chat/completions"


def test_tool_names_are_made_fit_and_read_back() -> None:
    names = ["a.b", "a_b", "x" * 70, "x" * 64, "\u5de5\u5177", "ok-1"]
    safe = safe_names([ToolSpec(name, "") for name in names])
    assert len(set(safe.values())) == len(names)
    assert all(0 < len(short) <= 64 and short.isascii() for short in safe.values())
    assert safe["ok-1"] == "ok-1"
    assert safe["a.b"] == "a_b"


def test_the_command_line_evaluates_an_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def evaluate(*more: str) -> Any:
        arguments = ["eval", "--env", "envscaler", "--tasks", "3", "--model", "openai:some-model"]
        monkeypatch.setattr(sys, "argv", ["lopd-gym", *arguments, *more])
        with pytest.raises(SystemExit) as caught:
            main()
        return caught.value.code

    with chat_server(in_turn(completion("Task Completed"))) as server:
        assert evaluate("--base-url", server.url) == 0
    assert "openai:some-model" in capsys.readouterr().out
    assert {r["model"] for r in server.requests} == {"some-model"}
    assert [r["temperature"] for r in server.requests] == [0.7] * 3 + [0.0] * 3
    with chat_server(lambda _: error(401, "bad key")) as server:
        assert evaluate("--base-url", server.url) == 2
    assert "set OPENAI_API_KEY" in capsys.readouterr().err
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert evaluate() == 2
    assert "give it with --base-url" in capsys.readouterr().err


def test_an_endpoint_is_not_trained() -> None:
    settings = RunSettings(env={}, learner={}, model=ModelSettings(source="openai:m"))
    with pytest.raises(UsageError, match="can only be evaluated"):
        load_backbone(settings)
