"""Environments in Gymnasium's vector API: in this process, and one process for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from lopd_envs.envscaler import make_envscaler
from lopd_envs.envscaler.starter.env import StarterEnv

from lopd_gym.env import ToolEnv
from lopd_gym.messages import AssistantMessage, Message, ToolCall
from lopd_gym.spaces import AssistantSpace, MessagesSpace
from lopd_gym.tasks import Outcome, Task

DONE = AssistantMessage(text="Task Completed")

Maker = Callable[[], ToolEnv]
Vectorised = VectorEnv[Any, Any, Any]


def in_processes(makers: list[Maker]) -> Vectorised:
    return AsyncVectorEnv(makers, shared_memory=False)


VECTORS = pytest.mark.parametrize("vectorise", [SyncVectorEnv, in_processes], ids=["sync", "async"])


@pytest.fixture(params=["starter", "release"])
def maker(request: pytest.FixtureRequest) -> Maker:
    if request.param == "starter":
        return StarterEnv
    folder: Path = request.getfixturevalue("data_folder") / "envscaler"
    return lambda: make_envscaler(data=folder, sandbox="process")


@VECTORS
@pytest.mark.filterwarnings("ignore")
def test_a_vector_of_environments_plays_as_each_alone(
    maker: Maker, vectorise: Callable[[list[Maker]], Vectorised]
) -> None:
    alone = [maker() for _ in range(3)]
    vector = vectorise([maker] * 3)
    try:
        observations, infos = vector.reset(seed=[1, 2, 3])
        for i, env in enumerate(alone):
            expected, info = env.reset(seed=i + 1)
            assert observations[i] == expected
            assert isinstance(infos["task"][i], Task)
            assert infos["task"][i].id == info["task"].id
        names = [infos["tools"][i][0].name for i in range(3)]
        calls = [AssistantMessage(tool_calls=(ToolCall(name, {}),)) for name in names]
        calls[2] = AssistantMessage(parse_error="unreadable")
        observations, rewards, ended, cut, _ = vector.step(calls)
        for i, env in enumerate(alone):
            expected, reward, terminated, truncated, _ = env.step(calls[i])
            assert observations[i] == expected
            assert (rewards[i], ended[i], cut[i]) == (reward, terminated, truncated)
        going = [not e for e in ended]
        _, rewards, ended, cut, infos = vector.step([DONE] * 3)
        for i, env in enumerate(alone):
            if going[i]:  # the vector opens the next task where one has ended
                _, reward, terminated, truncated, _ = env.step(DONE)
                assert (rewards[i], ended[i], cut[i]) == (reward, terminated, truncated)
                assert isinstance(infos["outcome"][i], Outcome)
        assert vector.step([DONE] * 3)[0][2][0].role == "system"  # reopened
    finally:
        vector.close()
        for env in alone:
            env.close()


@VECTORS
@pytest.mark.filterwarnings("ignore")
def test_registered_environments_are_vectorised_by_name(
    vectorise: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path))
    vector = vectorise([lambda: gymnasium.make("lopd_gym/envscaler-v0")] * 2)
    observations, _ = vector.reset(seed=0)
    assert [o[0].role for o in observations] == ["system", "system"]
    vector.close()


@pytest.mark.parametrize("space", [MessagesSpace(), AssistantSpace()])
def test_spaces_can_be_batched(space: Any) -> None:
    space.seed(0)
    batch = batch_space(space, 3)
    items = batch.sample()
    assert batch.contains(items)
    assert list(iterate(batch, items)) == list(items)
    empty = create_empty_array(space, 3)
    assert tuple(concatenate(space, list(items), empty)) == items


def test_spaces_tell_their_members() -> None:
    message = (Message("user", "hello"),)
    assert MessagesSpace().contains(message)
    assert MessagesSpace().contains(())
    assert not MessagesSpace().contains(list(message))
    assert not MessagesSpace().contains(("hello",))
    assert AssistantSpace().contains(DONE)
    assert not AssistantSpace().contains("hello")
    assert MessagesSpace() == MessagesSpace()
    assert MessagesSpace() != AssistantSpace()
