"""The environment contract: Gymnasium's own checker, wrappers, rules and endings."""

from __future__ import annotations

import json

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit

from lopd_gym.env import EpisodeRules, ToolEnv, episode_seed
from lopd_gym.errors import UsageError
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Termination
from lopd_gym.tools import tool
from tests.lopd_gym.test_loop import Counter, add


def opened(task: str = "two", **rules: object) -> Counter:
    env = Counter(rules=EpisodeRules.model_validate(rules))
    env.reset(seed=0, options={"task": task})
    return env


@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_checker_accepts_it() -> None:
    class Sound(Counter):
        def tasks(self, split):  # type: ignore[no-untyped-def]
            return super().tasks(split)[:2]

    check_env(Sound())


def test_it_works_inside_wrappers() -> None:
    env: gymnasium.Env = TimeLimit(Counter(), max_episode_steps=2)  # type: ignore[type-arg]
    env.reset(seed=0, options={"task": "two"})
    assert env.step(add(0))[3] is False
    assert env.step(add(0))[3] is True


def test_an_outcome_comes_once_with_the_reward() -> None:
    env = opened()
    messages, reward, terminated, truncated, info = env.step(add(2))
    assert (messages[0].role, messages[0].content) == ("tool", "2")
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["executed"] == (("add", {"amount": 2}, "2"),)
    messages, reward, terminated, truncated, info = env.step(AssistantMessage(text="done"))
    assert (messages, reward, terminated, truncated) == ((), 1.0, True, False)
    assert info["outcome"].termination is Termination.SUBMITTED
    assert info["outcome"].checks[0].passed
    with pytest.raises(UsageError, match="call reset"):
        env.step(add(1))


def test_unreadable_replies_are_answered_up_to_a_limit() -> None:
    env = opened(max_parse_errors=2)
    broken = AssistantMessage(parse_error="no closing tag")
    messages, *_ = env.step(broken)
    assert "no closing tag" in json.loads(messages[0].content)["error"]
    *_, truncated, info = env.step(broken)
    assert truncated
    assert info["outcome"].termination is Termination.PARSE_LIMIT


def test_several_calls_follow_the_rule() -> None:
    both = AssistantMessage(
        tool_calls=(ToolCall("add", {"amount": 1}), ToolCall("add", {"amount": 1}))
    )
    assert len(opened(several_calls="all").step(both)[0]) == 2
    env = opened(several_calls="first")
    assert (len(env.step(both)[0]), env.value) == (1, 1)
    env = opened(several_calls="reject")
    assert "one call" in env.step(both)[0][0].content
    assert env.value == 0


def test_limits_score_the_state_or_zero() -> None:
    env = opened(max_turns=1)
    _, reward, terminated, truncated, info = env.step(add(2))
    assert (reward, terminated, truncated) == (1.0, False, True)
    assert info["outcome"].termination is Termination.STEP_LIMIT
    assert opened(max_turns=1, at_limit="zero").step(add(2))[1] == 0.0


def test_a_marker_may_be_required_to_submit() -> None:
    env = opened(final_text="marker")
    messages, _, terminated, *_ = env.step(AssistantMessage(text="I think so"))
    assert not terminated
    assert "Task Completed" in messages[0].content
    assert env.step(AssistantMessage(text="Task Completed"))[2]


def test_long_observations_are_clipped_and_say_so() -> None:
    env = opened(max_observation_chars=64)
    env.value = 10**80
    assert "(81 characters)" in env.step(add(0))[0][0].content


def test_unknown_tasks_are_refused() -> None:
    with pytest.raises(UsageError, match="No task 'four'"):
        Counter().reset(options={"task": "four"})


def test_seeds_are_derived_by_hashing() -> None:
    assert episode_seed(0, "a", 1) == episode_seed(0, "a", 1)
    assert len({episode_seed(0, "a", n) for n in range(1000)}) == 1000
    assert isinstance(Counter(), ToolEnv)


def test_a_tool_may_end_the_episode() -> None:
    class Deciding(Counter):
        @tool
        def decide(self) -> str:
            """Say that this is it."""
            self.submitted = True
            return "thank you"

    env = Deciding(rules=EpisodeRules())
    env.reset(seed=0, options={"task": "two"})
    calls = (ToolCall("add", {"amount": 2}), ToolCall("decide", {}), ToolCall("add", {"amount": 1}))
    messages, reward, terminated, _, info = env.step(AssistantMessage(tool_calls=calls))
    assert [m.content for m in messages] == ["2", "thank you"]  # what comes after is not done
    assert (reward, terminated) == (1.0, True)
    assert info["outcome"].termination is Termination.SUBMITTED
    env.reset(seed=0, options={"task": "two"})
    assert env.step(add(2))[2] is False
