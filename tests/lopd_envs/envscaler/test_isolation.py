"""The release's worker in sandboxes that isolate: the same episodes, and the level is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lopd_envs.envscaler import make_envscaler

from lopd_gym.env import ToolEnv
from lopd_gym.episode import GREEDY
from lopd_gym.errors import InfrastructureError
from lopd_gym.isolation import open_sandbox
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.scripted import ScriptedPolicy, nothing
from lopd_gym.sandbox import Isolation
from lopd_gym.tasks import Termination
from tests.lopd_envs.envscaler.synthetic import DONE, HASTY, LIMITS, TASK_ID, call, make_env
from tests.lopd_sandboxes.conftest import ISOLATING, make


@pytest.fixture(params=ISOLATING)
def sandbox(request: pytest.FixtureRequest) -> Any:
    return make(request.param)


def play(env: ToolEnv) -> list[Any]:
    env.reset(seed=5)
    calls = [call("stamp"), call("mark"), call("add", name="apple"), call("peek"), DONE]
    steps = [env.step(turn)[:4] for turn in calls]
    env.close()
    return steps


def test_episodes_are_those_of_a_plain_process(tmp_path: Path, sandbox: Any) -> None:
    assert play(make_env(tmp_path, sandbox=sandbox)) == play(make_env(tmp_path))


def test_hanging_and_eating_stay_inside(tmp_path: Path, sandbox: Any) -> None:
    for name, limits, ending in (
        ("hang", HASTY, Termination.TIMEOUT),
        ("eat", LIMITS, Termination.TOOL_EXCEPTION),
    ):
        env = make_env(tmp_path, sandbox=sandbox, limits=limits)
        env.reset(seed=0)
        *_, info = env.step(call(name))
        assert info["outcome"].termination is ending
        assert info["outcome"].score == 0.0
        env.reset(seed=0)
        env.step(call("add", name="apple"))
        assert env.step(DONE)[1] == 1.0
        env.close()


def test_the_level_is_recorded_in_the_episode(tmp_path: Path, sandbox: Any) -> None:
    policy = ScriptedPolicy(nothing)
    with AgentLoop(lambda: make_env(tmp_path, sandbox=sandbox), policy, GREEDY) as loop:
        (episode,) = loop.play([Job(TASK_ID, seed=0)])
    assert episode.isolation == sandbox.isolation.label != "none"
    assert type(episode).from_json(episode.to_json()).isolation == episode.isolation


def test_a_plain_process_is_recorded_as_none(tmp_path: Path) -> None:
    assert make_env(tmp_path).isolation == "none"


def test_the_strongest_is_chosen_and_never_one_that_does_not_isolate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lopd_gym import isolation
    from lopd_gym.sandbox import Probe

    levels = {"a": None, "process": Isolation.NONE, "b": Isolation.NAMESPACES}

    def found() -> dict[str, Probe]:
        return {name: Probe(level, f"{name} lacks x") for name, level in levels.items()}

    monkeypatch.setattr(isolation, "probe_all", found)
    assert isolation.strongest() == "b"
    del levels["b"]
    with pytest.raises(InfrastructureError, match=r"\(a: a lacks x\).*env\.sandbox=process"):
        isolation.strongest()


def test_where_nothing_isolates_the_release_is_refused_and_the_starter_suite_plays(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lopd_gym import isolation
    from lopd_gym.sandbox import Probe

    bare = {"docker": Probe(None, "start it"), "process": Probe(Isolation.NONE, "plain")}
    monkeypatch.setattr(isolation, "probe_all", lambda: bare)
    monkeypatch.setattr(isolation, "_opened", {})
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path))
    release = data_folder / "envscaler"
    with pytest.raises(InfrastructureError, match=r"docker: start it.*env\.sandbox=process"):
        make_envscaler(data=release)
    env = make_envscaler(data=release, sandbox="process")
    assert env.isolation == "none"
    env.close()
    make_envscaler().reset(seed=0)


def test_the_release_plays_in_a_sandbox_that_isolates_unless_told_otherwise(
    data_folder: Path, sandbox: Any
) -> None:
    env = make_envscaler(data=data_folder / "envscaler")
    env.reset(seed=0)
    assert env.isolation != "none"
    env.close()


def test_a_sandbox_is_shared_within_a_process() -> None:
    assert open_sandbox("process") is open_sandbox("process")
