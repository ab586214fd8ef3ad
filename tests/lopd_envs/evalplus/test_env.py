"""The environment: tools, endings, public tests, splits, and whole runs of the agent loop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env
from lopd_envs.evalplus import EvalPlusEnv, make_evalplus
from lopd_envs.evalplus.corpus import load_corpus
from lopd_envs.evalplus.examples import find_examples
from lopd_envs.evalplus.grading import Grader
from lopd_envs.evalplus.starter import FAMILIES, starter_corpus
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.bank.experience import experience_from
from lopd_gym.env import ToolEnv
from lopd_gym.episode import GREEDY
from lopd_gym.errors import InfrastructureError, UsageError
from lopd_gym.isolation import strongest
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.policy.scripted import ScriptedPolicy, oracle
from lopd_gym.tasks import Check, Outcome, Task, Termination

TASK = "Starter/000"
GOOD, BAD = "def add_2(n):\n    return n + 2\n", "def add_2(n):\n    return n\n"


def make(**options: Any) -> EvalPlusEnv:
    made = make_evalplus(**{"sandbox": "process", **options})
    assert isinstance(made, EvalPlusEnv)
    return made


@pytest.fixture(autouse=True)
def no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path))


@pytest.fixture
def env() -> EvalPlusEnv:
    return opened("turns")


def opened(protocol: str) -> EvalPlusEnv:
    made = make(protocol=protocol)
    made.reset(seed=0, options={"task": TASK})
    return made


def play(env: ToolEnv, tool: str, **arguments: Any) -> tuple[str, float, Outcome | None]:
    messages, reward, *_, info = env.step(AssistantMessage(tool_calls=(ToolCall(tool, arguments),)))
    return messages[0].content, reward, info.get("outcome")


@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_checker_accepts_it() -> None:
    check_env(make())


def test_work_over_turns(env: EvalPlusEnv) -> None:
    said, *_ = play(env, "run_code", code="print(int(input()) + 2)", stdin="5")
    assert json.loads(said) == {"exit_code": 0, "stdout": "7\n"}
    said, *_ = play(env, "run_code", code="1/0")
    assert json.loads(said)["exit_code"] == 1
    assert 'File "main.py", line 1' in json.loads(said)["stderr"]
    said, *_ = play(env, "run_public_tests", code=BAD)
    assert said == "0 of 1 examples passed. add_2(35): expected 37, got 35"
    said, *_ = play(env, "run_public_tests", code="def add_2(n): return n +")
    assert said.startswith("0 of 1 examples passed. add_2(35): compile_error: SyntaxError")
    said, _, outcome = play(env, "run_public_tests", code=GOOD)
    assert (said, outcome) == ("All 1 examples passed.", None)
    said, reward, outcome = play(env, "submit", code=GOOD)
    assert reward == 1.0
    assert outcome is not None
    assert outcome.termination is Termination.SUBMITTED
    assert [(c.name, c.passed) for c in outcome.checks] == [("base", True), ("plus", True)]


def test_a_wrong_submission_scores_zero_and_shows_no_hidden_test(env: EvalPlusEnv) -> None:
    said, reward, outcome = play(env, "submit", code=BAD)
    assert (said, reward) == ("submitted", 0.0)
    assert outcome is not None
    assert [(c.name, c.passed, c.error) for c in outcome.checks] == [
        ("base", False, "wrong_answer"),
        ("plus", False, "wrong_answer"),
    ]


@pytest.mark.parametrize("protocol", ["turns", "direct"])
@pytest.mark.parametrize(
    ("reply", "score"),
    [
        (f"```python\n{GOOD}```", 1.0),
        (f"Like this:\n```\n{GOOD}```\nThat is how:\n```\nadd_2(3)\n```", 1.0),
        (GOOD, 1.0),
        (f"```python\n{BAD}```\nNo, better:\n```python\n{GOOD}", 1.0),
        (f"```python\n{GOOD}```\nNo:\n```python\n{BAD}```", 0.0),
        ("I cannot.", 0.0),
        ("", 0.0),
        ("```\n```", 0.0),
    ],
)
def test_a_reply_is_a_submission(protocol: str, reply: str, score: float) -> None:
    env = opened(protocol)
    _, reward, terminated, _, info = env.step(AssistantMessage(reply))
    assert (reward, terminated) == (score, True)
    assert info["outcome"].termination is Termination.SUBMITTED


def test_the_direct_protocol_has_one_turn_and_no_tools() -> None:
    env = opened("direct")
    assert env.toolset.specs() == ()
    assert [m.role for m in env.tasks("train")[0].messages] == ["user"]
    _, reward, outcome = play(env, "submit", code=GOOD)
    assert outcome is not None
    assert (reward, outcome.termination) == (0.0, Termination.STEP_LIMIT)
    with pytest.raises(UsageError, match="did you mean 'direct'"):
        make(protocol="directly")


def test_a_new_episode_forgets_the_last_submission(env: EvalPlusEnv) -> None:
    play(env, "submit", code=GOOD)
    env.reset(options={"task": TASK})
    assert env.finish(Termination.STEP_LIMIT).score == 0.0


def test_broken_machinery_fails_the_episode_and_is_no_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judge(self: EvalPlusEnv, task: Task, code: str | None) -> tuple[Check, ...]:
        raise InfrastructureError("the daemon is gone")

    monkeypatch.setattr(EvalPlusEnv, "judge", judge)
    solution = ScriptedPolicy(oracle(make()))
    with AgentLoop(make, solution, GREEDY) as loop:
        (episode,) = loop.play([Job(TASK, 0)])
    assert episode.failed
    assert episode.outcome.score is None
    assert "the daemon is gone" in (episode.outcome.error or "")


def test_references_solve_their_tasks_in_the_loop_and_can_be_remembered() -> None:
    def script(task: Any, tools: Any, rng: Any) -> Iterator[AssistantMessage]:
        code = solutions[task.id]
        yield AssistantMessage(tool_calls=(ToolCall("run_public_tests", {"code": code}),))
        yield AssistantMessage(tool_calls=(ToolCall("submit", {"code": code}),))

    solutions = {i: p.reference for i, p in starter_corpus().problems.items()}
    ids = [t.id for t in make().tasks("train")[:6]]
    with AgentLoop(make, ScriptedPolicy(script), GREEDY) as loop:
        episodes = loop.play([Job(i, 0) for i in ids])
    assert [e.outcome.score for e in episodes] == [1.0] * 6
    assert {e.env for e in episodes} == {"evalplus:starter"}
    experience = experience_from(episodes[0])
    assert experience is not None
    assert "submit" in experience.trace


def test_pass_at_k_is_of_whole_splits() -> None:
    env = make(split="test_families")
    ids = [t.id for t in env.tasks("test_families")]
    with AgentLoop(
        lambda: make(split="test_families"), ScriptedPolicy(oracle(env)), GREEDY
    ) as loop:
        (episode,) = loop.play([Job(ids[0], 0)])
    episodes = [replace(episode, task_id=i) for i in ids]
    assert env.figures(episodes) == {"base": {"pass@1": 1.0}, "plus": {"pass@1": 1.0}}
    assert env.figures(episodes[1:]) == {}


def test_the_starter_tasks() -> None:
    corpus = starter_corpus()
    assert {k: len(v) for k, v in corpus.splits.items()} == {
        "train": 59,
        "test": 30,
        "test_families": 25,
    }
    assert sorted(i for ids in corpus.splits.values() for i in ids) == sorted(corpus.problems)
    assert len({p.prompt for p in corpus.problems.values()}) == len(corpus.problems)
    for problem in corpus.problems.values():
        (example,) = find_examples(problem.prompt, problem.entry_point)
        assert example.arguments == problem.base[0]


def test_every_starter_reference_agrees_with_an_independent_solution() -> None:
    env = make(split="test_families")
    for family in FAMILIES:
        name = family.name.format(str(family.variants[-1]))
        problem = next(p for p in starter_corpus().problems.values() if p.entry_point == name)
        tests = env._grader.tests(problem, env.sandbox)
        assert tests.left_out == 0
        for test in tests.tests:
            assert family.solve(test.arguments[0], family.variants[-1]) == test.expected, name


def test_the_releases_examples_hold_for_their_references(data_folder: Path) -> None:
    problems = load_corpus(data_folder / "code").problems
    shown = {i: find_examples(p.prompt, p.entry_point) for i, p in problems.items()}
    with_some = [i for i, examples in shown.items() if examples]
    assert sum(i.startswith("HumanEval") for i in with_some) >= 135
    assert sum(i.startswith("Mbpp") for i in with_some) >= 350


def test_splits_are_those_of_the_data(data_folder: Path) -> None:
    env = make(split="test", data=data_folder / "code")
    assert (env.label, len(env.tasks("test"))) == ("evalplus", 164)
    assert env.find("HumanEval/3").group == "HumanEval"
    with pytest.raises(UsageError, match="No task"):
        env.find("Mbpp/2")
    with pytest.raises(UsageError, match="No split"):
        make(split="dev", data=data_folder / "code")
    hidden = "[1, 2, -4, 5, 6]"  # a base input that the statement does not show
    assert all(hidden not in m.content for m in env.find("HumanEval/3").messages)


def test_every_episode_has_a_sandbox_of_its_own_and_gives_it_back() -> None:
    leases: list[str] = []

    class Leasing(ProcessSandbox):
        @contextmanager
        def lease(self) -> Iterator[Leasing]:  # type: ignore[override]
            leases.append("taken")
            yield self
            leases.append("given back")

    env = EvalPlusEnv(starter_corpus(), Grader(), Leasing())
    assert env.isolation == "none"
    for _ in range(2):
        env.reset(options={"task": TASK})
        env.step(AssistantMessage(tool_calls=(ToolCall("submit", {"code": GOOD}),)))
        assert leases[-1] == "given back"
    env.reset(options={"task": TASK})
    env.finish(Termination.TOKEN_LIMIT)
    env.reset(options={"task": TASK})
    env.reset(options={"task": TASK})
    env.close()
    env.close()
    assert leases == ["taken", "given back"] * 5


def test_where_nothing_isolates_it_says_so_and_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lopd_gym.isolation.names", lambda group: ["process"])
    monkeypatch.setattr("lopd_gym.isolation._opened", {})
    with pytest.raises(InfrastructureError, match="run without isolation by naming it"):
        make_evalplus()


def test_model_written_code_runs_isolated_where_that_is_possible() -> None:
    try:
        strongest()
    except InfrastructureError as err:
        pytest.skip(str(err))
    env = make_evalplus()
    assert env.isolation not in ("", "none")
    env.reset(seed=0, options={"task": TASK})
    said, *_ = play(env, "run_code", code="import os; print('uid', os.getuid())")
    assert not json.loads(said)["stdout"].endswith(" 0\n")  # not the superuser
    said, *_ = play(env, "run_public_tests", code=BAD)
    assert said == "0 of 1 examples passed. add_2(35): expected 37, got 35"
    said, reward, _ = play(env, "submit", code=GOOD)
    assert (said, reward) == ("submitted", 1.0)
