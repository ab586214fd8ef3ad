"""The environment: data, windows, tools, scores with and without the errata."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env
from lopd_envs.livecodebench import LiveCodeBenchEnv, make_livecodebench
from lopd_envs.livecodebench.corpus import RELEASES, load_corpus
from lopd_envs.livecodebench.starter import starter_corpus
from lopd_envs.livecodebench.windows import read_window

from lopd_gym.bank.experience import experience_from
from lopd_gym.episode import GREEDY, Episode
from lopd_gym.errors import DataError, UsageError
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from lopd_gym.tasks import Outcome, Termination
from tests.lopd_envs.livecodebench.rows import functional, row, write

SUM = "a, b = map(int, input().split())\nprint(a + b)"


def opened(folder: Path, task: str = "abc999_a", **options: Any) -> LiveCodeBenchEnv:
    env = make_livecodebench(split="all", data=folder, **options)
    assert isinstance(env, LiveCodeBenchEnv)
    env.reset(seed=0, options={"task": task})
    return env


def play(env: LiveCodeBenchEnv, tool: str, **arguments: Any) -> tuple[str, float]:
    messages, reward, *_ = env.step(AssistantMessage(tool_calls=(ToolCall(tool, arguments),)))
    return messages[0].content, reward


@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_checker_accepts_it() -> None:
    check_env(make_livecodebench())


def test_an_episode_over_turns(tmp_path: Path) -> None:
    env = opened(write(tmp_path, row()))
    assert env.task is not None
    assert "40 2" not in str(env.task)  # the hidden test
    assert play(env, "run_public_tests", code="print(3)")[0] == "All 1 examples passed."
    said, _ = play(env, "run_public_tests", code="print(4)")
    assert said == (
        "0 of 1 examples passed. Input '1 2\\n': wrong_answer: expected '3\\n', got '4\\n'"
    )
    said, _ = play(env, "run_public_tests", code="1 / 0")
    assert said.endswith("runtime_error: ZeroDivisionError: division by zero")
    assert play(env, "submit", code=SUM) == ("submitted", 1.0)
    env.reset(options={"task": "abc999_a"})
    assert play(env, "submit", code="print(3)") == ("submitted", 0.0)
    assert env.outcome is not None
    assert env.outcome.checks[0].error == "wrong_answer"


@pytest.mark.parametrize("protocol", ["turns", "direct"])
def test_a_reply_is_a_submission(tmp_path: Path, protocol: str) -> None:
    env = opened(write(tmp_path, row()), protocol=protocol)
    _, reward, *_ = env.step(AssistantMessage(f"Output 3:\n```\n3\n```\n```python\n{SUM}\n```"))
    assert reward == 1.0
    env.reset(options={"task": "abc999_a"})
    _, reward, *_ = env.step(AssistantMessage(SUM))  # no fence: nobody can tell prose from it
    assert reward == 0.0


def test_a_method_to_write(tmp_path: Path) -> None:
    env = opened(write(tmp_path, functional([("1", "2")], [("5", "6")])), task="9999")
    assert env.task is not None
    assert "class Solution" in env.task.instruction
    code = "class Solution:\n    def f(self, x):\n        return x + 1"
    assert play(env, "run_public_tests", code=code)[0] == "All 1 examples passed."
    said, _ = play(env, "run_public_tests", code=code.replace("+ 1", "+ 2"))
    assert said == "0 of 1 examples passed. Input '1': wrong_answer: expected '2'"
    assert play(env, "submit", code=code)[1] == 1.0


def test_hidden_tests_that_cannot_be_read_fail_the_episode(tmp_path: Path) -> None:
    folder = write(tmp_path, row(private_test_cases="W10="))
    make = lambda: make_livecodebench(data=folder, split="all")  # noqa: E731
    script = lambda *_: iter([AssistantMessage(f"```python\n{SUM}\n```")])  # noqa: E731
    with AgentLoop(make, ScriptedPolicy(script), GREEDY) as loop:
        (episode,) = loop.play([Job("abc999_a", 0)])
    assert episode.failed
    assert "neither JSON nor packed JSON" in (episode.outcome.error or "")


def test_windows(tmp_path: Path) -> None:
    days = ["2024-07-31", "2024-08-01", "2025-01-31", "2025-02-01", "2025-04-30", "2025-05-01"]
    rows = [row(question_id=day, contest_date=f"{day}T10:00:00") for day in days]
    env = make_livecodebench(data=write(tmp_path, *rows), window="2024-07-01:2024-08-01")
    assert {s: [t.id for t in env.tasks(s)] for s in env.splits()} == {
        "train": days[:1],
        "test": days[1:],
        "v5": days[1:3],
        "v6": days[3:5],
        "all": days,
        "window": days[:1],
    }
    assert read_window("2024-08-01:2025-02-01") == (date(2024, 8, 1), date(2025, 2, 1))
    for text in ("2024-08-01", "a:b", "2024-08-01:2024-08-01", ""):
        with pytest.raises(UsageError):
            read_window(text)


def test_releases_are_recognised_and_the_hash_covers_the_hidden_tests(tmp_path: Path) -> None:
    rows = [row(question_id=str(i)) for i in range(400)]
    write(tmp_path, *rows[:300])
    write(tmp_path, *rows[300:], name="test2.jsonl")
    env = make_livecodebench(data=tmp_path)
    assert RELEASES[400] == "v1"
    assert env.label == "livecodebench:release_v1"
    assert make_livecodebench(data=tmp_path, comparison="strict").label.endswith("v1:strict")
    before = env.data_hash()
    rows[399]["private_test_cases"] = rows[399]["public_test_cases"]
    write(tmp_path, *rows[300:], name="test2.jsonl")
    assert make_livecodebench(data=tmp_path).data_hash() != before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contest_date": "yesterday"}, "column 'contest_date'"),
        ({"platform": "elsewhere"}, "column 'platform'"),
        ({"difficulty": None}, "column 'difficulty'"),
        ({"public_test_cases": "[]"}, "found none"),
        ({"metadata": "[]"}, "column 'metadata'"),
        ({"starter_code": "class Solution:"}, "starter code and func_name, or neither"),
    ],
)
def test_wrong_rows_are_one_sentence(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=r"test\.jsonl, line 2") as caught:
        load_corpus(write(tmp_path, row(), row(**changes)))
    assert words in str(caught.value)


def test_wrong_options_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test\.jsonl, test2\.jsonl"):
        make_livecodebench(data=tmp_path)
    (tmp_path / "test.jsonl").write_text("")
    with pytest.raises(DataError, match="found none"):
        make_livecodebench(data=tmp_path)
    with pytest.raises(UsageError, match="No comparison"):
        make_livecodebench(comparison="lenient")
    with pytest.raises(UsageError, match="No split"):
        make_livecodebench(split="v7")
    mixed = row(private_test_cases=functional([("1", "1")], [])["public_test_cases"])
    (problem,) = load_corpus(write(tmp_path, mixed)).problems.values()
    with pytest.raises(DataError, match="expected only stdin tests"):
        problem.tests()


def test_starter_references_solve_their_tasks_and_can_be_remembered() -> None:
    env = make_livecodebench(split="all")
    assert env.label == "livecodebench:starter"
    sizes = {s: len(env.tasks(s)) for s in env.splits()}
    assert sizes == {"train": 24, "test": 18, "v5": 12, "v6": 6, "all": 42}
    references = starter_corpus().references

    def script(task: Any, *_: Any) -> Any:
        code = references[task.id]
        yield AssistantMessage(tool_calls=(ToolCall("run_public_tests", {"code": code}),))
        yield AssistantMessage(tool_calls=(ToolCall("submit", {"code": code}),))

    jobs = [Job(t.id, 0) for t in env.tasks("v6")]
    with AgentLoop(lambda: make_livecodebench(split="v6"), ScriptedPolicy(script), GREEDY) as loop:
        episodes = loop.play(jobs)
    assert [e.outcome.score for e in episodes] == [1.0] * 6
    assert experience_from(episodes[0]) is not None
    with AgentLoop(
        lambda: make_livecodebench(split="v6"), ScriptedPolicy(oracle(env)), GREEDY
    ) as loop:
        assert loop.play(jobs[:1])[0].outcome.success


def test_scores_with_and_without_the_errata(tmp_path: Path) -> None:
    rows = [
        row(question_id="abc337_e"),
        row(question_id="1", question_title="find-the-peaks", difficulty="hard"),
        row(question_id="2"),
    ]
    env = opened(write(tmp_path, *rows), task="2")

    def outcome(task_id: str, passed: bool) -> Episode:
        found = Outcome(float(passed), passed, Termination.SUBMITTED)
        return replace(episode, task_id=task_id, outcome=found)

    solution = ScriptedPolicy(lambda *_: iter([AssistantMessage("no")]))
    with AgentLoop(lambda: opened(tmp_path, task="2"), solution, GREEDY) as loop:
        (episode,) = loop.play([Job("2", 0)])
    failed = replace(episode, outcome=Outcome(None, False, Termination.INFRASTRUCTURE))
    played = [outcome("abc337_e", False), outcome("1", False), outcome("2", True), failed]
    assert env.figures([*played, outcome("2", False)]) == {
        "all": {"pass@1": pytest.approx(0.5 / 3), "problems": 3},
        "without errata": {"pass@1": 0.5, "problems": 1},
        "easy": {"pass@1": 0.25, "problems": 2},
        "hard": {"pass@1": 0.0, "problems": 1},
    }
    assert json.dumps(env.figures([])) == "{}"
