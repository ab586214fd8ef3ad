from __future__ import annotations

from pathlib import Path

import pytest
from lopd_envs.acebench import AceBenchEnv, make_acebench
from lopd_envs.acebench.corpus import AGENT, LANGUAGES, MULTI_STEP, Corpus
from lopd_envs.acebench.oracle import plan
from lopd_envs.acebench.scoring.agent import official_faults, process_score, strict_faults
from lopd_envs.acebench.tools import SceneTools

from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Outcome, Termination
from tests.lopd_envs.acebench.port import port

FINISH = AssistantMessage(text="finish conversation")
UNREACHABLE = {"agent_multi_step_0", "agent_multi_step_1"}
"""The answer expects a reminder with the number of another one, which nothing can produce."""


def play(env: AceBenchEnv, task_id: str, *turns: AssistantMessage) -> Outcome:
    env.reset(seed=0, options={"task": task_id})
    for turn in turns:
        *_, info = env.step(turn)
        if "outcome" in info:
            outcome: Outcome = info["outcome"]
            return outcome
    raise AssertionError("the episode did not end")


@pytest.fixture(scope="module", params=LANGUAGES)
def env(request: pytest.FixtureRequest, acebench_folder: Path) -> AceBenchEnv:
    return make_acebench(MULTI_STEP, acebench_folder, request.param)


def test_planned_solutions_pass(env: AceBenchEnv) -> None:
    for task in env.tasks(MULTI_STEP):
        outcome = play(env, task.id, *env.oracle(task))
        assert (outcome.score, outcome.success) == (1.0, True), task.id
        assert outcome.termination is Termination.SUBMITTED
        strict = float(task.id not in UNREACHABLE)
        assert outcome.measures == {"official": 1.0, "strict": strict, "process": 1.0}, task.id


def test_the_end_states_of_all_agent_tasks_are_reached(corpus: Corpus) -> None:
    for category in AGENT:
        for row in corpus.rows[category]:
            tools = SceneTools(row, corpus.language)
            for call in plan(row, corpus.language):
                assert tools.call(call.name, call.arguments).raised is None
            assert not official_faults(tools.states(), row.truth), row.id


def test_doing_nothing_fails_everywhere(env: AceBenchEnv) -> None:
    for task in env.tasks(MULTI_STEP):
        outcome = play(env, task.id, FINISH)
        assert outcome.measures["official"] == outcome.measures["strict"] == 0.0
        assert outcome.measures["process"] == 0.0


def test_a_half_done_task_gets_process_credit(acebench_folder: Path) -> None:
    env = make_acebench(MULTI_STEP, acebench_folder)
    outcome = play(
        env,
        "agent_multi_step_3",
        AssistantMessage(
            tool_calls=(
                ToolCall("login_food_platform", {"username": "Jack", "password": "password654"}),
            )
        ),
        FINISH,
    )
    assert outcome.measures == {"official": 0.0, "strict": 0.0, "process": 0.5}
    assert not outcome.success


def test_calls_in_the_benchmark_notation_are_understood(acebench_folder: Path) -> None:
    env = make_acebench(MULTI_STEP, acebench_folder, protocol="text")
    _, info = env.reset(seed=0, options={"task": "agent_multi_step_3"})
    assert "add_food_delivery_order" in info["task"].messages[0].content
    texts = (
        "[login_food_platform(username='Jack', password='password654')]",
        "[add_food_delivery_order(username='Jack', merchant_name='Jiutian BBQ', "
        "items=[{'product': 'Grilled Pork Belly', 'quantity': 1}])]",
        "finish conversation",
    )
    turns = [AssistantMessage(text=text) for text in texts]
    assert play(env, "agent_multi_step_3", *turns).measures["strict"] == 1.0


def test_talk_is_answered_and_the_limit_scores_what_was_reached(env: AceBenchEnv) -> None:
    task = env.tasks(MULTI_STEP)[2]
    *work, _ = env.oracle(task)
    talk = [AssistantMessage(text="Which one would you like?")] * (20 - len(work))
    outcome = play(env, task.id, *work, *talk)
    assert outcome.termination is Termination.STEP_LIMIT
    assert outcome.score == 1.0
    env.reset(seed=0, options={"task": task.id})
    replies, *_ = env.step(talk[0])
    assert "finish conversation" in replies[0].content


def test_misspelt_and_missing_apps_are_skipped_officially_only() -> None:
    truth = [{"ReminderAPI": {"reminder_list": {"1": {"title": "x"}}}}]
    states = [{"ReminderApi": {"reminder_list": {}}}]
    assert not official_faults(states, truth)
    assert strict_faults(states, truth) == ["ReminderApi.reminder_list differs"]
    assert official_faults([], truth) == ["expected the state of 1 apps, found 0"]
    assert strict_faults([{"Travel": {}}], truth) == [
        "ReminderApi is missing",
        "Travel is not expected",
    ]


def test_a_message_that_should_be_gone_is_seen_strictly_only() -> None:
    truth = [{"MessageApi": {"inbox": {"7": {"message": "hi"}}}}]
    states = [{"MessageApi": {"inbox": {"4": {"message": "old"}, "7": {"message": "hi"}}}}]
    assert not official_faults(states, truth)
    assert strict_faults(states, truth) == ["MessageApi.inbox differs"]


def test_end_states_agree_with_the_port(corpus: Corpus) -> None:
    """Every expected state against every reached one, and against states with a part changed."""
    checker, compared = port("checker"), 0
    for category in AGENT:
        rows = corpus.rows[category]
        for row in rows:
            tools = SceneTools(row, corpus.language)
            calls = plan(row, corpus.language)
            for call in [*calls, *calls[:1]]:
                tools.call(call.name, call.arguments)
                states = list(tools.states())
                for other in rows:
                    theirs = checker.check_agent_end_state(states, other.truth)["valid"]
                    assert (not official_faults(states, other.truth)) == theirs
                    compared += 1
    assert compared > 2_000


def test_process_scores_agree_with_the_port(corpus: Corpus) -> None:
    accuracy = port("checker").milestone_accuracy
    for category in AGENT:
        for row in corpus.rows[category]:
            nested = isinstance(row.milestones[0], list)
            way = row.milestones[-1] if nested else row.milestones
            for trace in (way, way[1:], way[:-1], way[::-1], ["x", *way, "y"], [], way[::2]):
                assert process_score(trace, row.milestones) == accuracy(trace, row.milestones)
    assert process_score([], []) == accuracy([], []) == 1.0
