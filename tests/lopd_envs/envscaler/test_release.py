"""The release as an environment: rules, arguments, isolation, Gymnasium."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TimeLimit
from lopd_envs.envscaler import make_envscaler
from lopd_envs.envscaler.release import ReleaseEnv
from lopd_envs.envscaler.rules import LOPD, UPSTREAM
from lopd_envs.envscaler.scoring import name_errors, official_reward, reward_above_noop
from lopd_envs.envscaler.splits import SPLITS
from lopd_envs.envscaler.starter.env import StarterEnv
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.errors import DataError, UsageError
from lopd_gym.messages import AssistantMessage, ToolCall
from lopd_gym.tasks import Check, Termination
from tests.lopd_envs.envscaler.synthetic import DONE, call, make_env, process_of

TASK = "env_144_rl-task_3"
LIST, UPDATE = "list_patient_medical_records", "update_patient_info"


@pytest.fixture(scope="module")
def folder(data_folder: Path) -> Path:
    return data_folder / "envscaler"


@pytest.fixture(scope="module")
def golden(folder: Path) -> dict[str, Any]:
    episodes: list[dict[str, Any]] = json.loads((folder / "golden_episodes.json").read_text())
    return next(e for e in episodes if e["task_id"] == TASK)


@pytest.fixture(params=["upstream", "lopd", "observation"])
def env(folder: Path, request: pytest.FixtureRequest) -> Iterator[ReleaseEnv]:
    rules = None
    if request.param == "observation":
        rules = LOPD.model_copy(update={"on_exception": "observation"})
    made = make_envscaler(
        data=folder, rules=rules, preset=None if rules else request.param, sandbox="process"
    )
    assert isinstance(made, ReleaseEnv)
    made.reset(seed=0, options={"task": TASK})
    yield made
    made.close()


def solve(env: gymnasium.Env[Any, Any], golden: dict[str, Any]) -> float:
    """Play the recorded solution in the open episode; returns the reward."""
    for action in golden["actions"]:
        env.step(call(action["name"], **action["arguments"]))
    reward: float = env.step(DONE)[1]
    return reward


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        (UPDATE, {}, "missing 1 required positional argument: 'patient_id'"),
        (UPDATE, {"patient_id": "PAT1001", "colour": "red"}, "unexpected keyword argument"),
        ("get_provider_info_by_id", {"provider_id": ["PROV-A3D9"]}, "unhashable type: 'list'"),
    ],
)
def test_a_call_that_raises_ends_the_episode_or_is_answered(
    env: ReleaseEnv, golden: dict[str, Any], name: str, arguments: dict[str, Any], error: str
) -> None:
    messages, reward, terminated, truncated, info = env.step(call(name, **arguments))
    assert error in json.loads(messages[0].content)["error"]
    if env.rules.on_exception == "terminate":
        assert (reward, terminated, truncated) == (0.0, True, False)
        assert info["outcome"].termination is Termination.TOOL_EXCEPTION
        assert len(info["outcome"].checks) == 4  # what was reached is still told
    else:
        assert solve(env, golden) == 1.0


@pytest.mark.parametrize("value", [None, "", 7])
def test_odd_values_are_the_systems_business(
    env: ReleaseEnv, golden: dict[str, Any], value: Any
) -> None:
    messages, *_ = env.step(call("get_provider_info_by_id", provider_id=value))
    assert messages[0].content.startswith("{'success': False")
    assert solve(env, golden) == 1.0


@pytest.mark.parametrize("arguments", ["", None, "text", ["list"], {"x": object()}, {"x": {1}}])
def test_what_is_no_json_object_is_refused(env: ReleaseEnv, arguments: Any) -> None:
    result = env.toolset.call(LIST, arguments)
    assert result.refused == bool(arguments)
    assert ("error" in result.content) == bool(arguments)


def test_arguments_nested_at_the_edge_of_what_can_be_read_are_answered(env: ReleaseEnv) -> None:
    refused = []
    value: list[Any] = []
    for _ in range(1_000):
        value = [value]
        if len(refused) > 20:
            break
        result = env.toolset.call("get_provider_info_by_id", {"provider_id": value})
        assert "error" in result.content
        refused += [result] if result.refused else []
    assert len(refused) > 20


@pytest.mark.parametrize("name", ["__init__", "__class__", "init_config", "_hidden", "items", ""])
def test_the_worker_itself_refuses_what_is_no_tool(tmp_path: Path, name: str) -> None:
    env = make_env(tmp_path)
    env.reset(seed=0)
    assert env.toolset.call(name, {"init_config": {}}).refused
    request = {"op": "call", "name": name, "arguments": {"init_config": {}}}
    assert "refused" in env._worker.request(request)
    env.step(call("add", name="apple"))
    assert env.step(DONE)[1] == 1.0
    env.close()


def test_rules_of_the_presets(folder: Path, golden: dict[str, Any]) -> None:
    assert (UPSTREAM.max_turns, UPSTREAM.at_limit) == (30, "zero")
    for preset, turns, expected in (("upstream", 30, 0.0), ("lopd", 29, golden["noop_reward"])):
        env = make_envscaler(data=folder, preset=preset, sandbox="process")
        env.reset(seed=0, options={"task": TASK})
        for _ in range(turns - 1):
            assert not env.step(call(LIST))[3]
        _, reward, terminated, truncated, info = env.step(call(LIST))
        assert (reward, terminated, truncated) == (expected, False, True)
        assert info["outcome"].termination is Termination.STEP_LIMIT
        env.close()


def test_only_the_first_call_counts_and_any_text_submits(folder: Path) -> None:
    env = make_envscaler(data=folder, sandbox="process")
    env.reset(seed=0, options={"task": TASK})
    for _ in range(10):  # unreadable replies are not capped
        assert not env.step(AssistantMessage(parse_error="no"))[3]
    two = AssistantMessage(text="both", tool_calls=(ToolCall(LIST, {}), ToolCall(LIST, {})))
    assert len(env.step(two)[0]) == 1
    *_, info = env.step(AssistantMessage(text="I give up"))
    assert info["outcome"].termination is Termination.SUBMITTED
    env.close()


def test_the_prompt_describes_the_system_and_hides_the_checks(env: ReleaseEnv) -> None:
    assert env.task is not None
    system, user = env.task.messages
    headings = ("# Environment Information", "## Brief Introduction:", "Task Completed", "\n- ")
    assert all(text in system.content for text in headings)
    assert (system.role, user.role) == ("system", "user")
    assert all(name not in system.content for name, _ in env.task.data["checks"])


def test_instances_are_isolated_and_nothing_outlives_an_episode(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one, other = make_env(tmp_path), make_env(tmp_path / "b")
    one.reset(seed=0)
    other.reset(seed=0)
    one.step(call("add", name="apple"))
    assert process_of(one) != process_of(other)
    assert other.step(DONE)[1] == 0.0
    assert one.step(DONE)[1] == 1.0
    process = process_of(one)
    one.reset(seed=0)
    assert process_of(one) == process  # the process is reused, the instance is not
    assert one.step(DONE)[1] == 0.0
    one.close()
    other.close()


def test_a_seed_fixes_ids_times_and_chance(tmp_path: Path) -> None:
    env = make_env(tmp_path)

    def stamps(seed: int) -> list[str]:
        env.reset(seed=seed)
        return [env.step(call("stamp"))[0][0].content for _ in range(4)]

    first = stamps(1)
    assert len(set(first)) == 4
    env.close()  # also in a new process
    assert stamps(1) == first
    assert stamps(2) != first
    assert "2024-07-01T00:00:" in first[0]
    env.close()


def test_threads_play_at_once(folder: Path, golden: dict[str, Any]) -> None:
    def play(seed: int) -> float:
        env = make_envscaler(data=folder, sandbox="process")
        try:
            return sum(
                solve(env, golden) for _ in range(3) if env.reset(seed=seed, options={"task": TASK})
            )
        finally:
            env.close()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(8))) == [3.0] * 8


def test_a_worker_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    env = make_env(tmp_path)
    env.reset(seed=0)
    environment = Path(f"/proc/{process_of(env)}/environ")
    if not environment.exists():
        pytest.skip("no /proc here")
    assert b"hf_secret" not in environment.read_bytes()
    assert b"PYTHONHASHSEED=0" in environment.read_bytes()
    env.close()


def test_closing_ends_the_process(tmp_path: Path) -> None:
    env = make_env(tmp_path)
    env.reset(seed=0)
    process = process_of(env)
    env.close()
    env.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_scores_beside_the_reward() -> None:
    checks = [Check("a", True), Check("b", False, "NameError: name 'x'"), Check("c", True)]
    assert official_reward(checks) == 0.6667
    assert name_errors(checks) == 1
    assert [reward_above_noop(r, 0.5) for r in (0.25, 0.5, 0.75, 1.0)] == [0.0, 0.0, 0.5, 1.0]
    assert reward_above_noop(1.0, 1.0) == 0.0
    with pytest.raises(DataError, match="at least one check"):
        official_reward([])


def test_no_check_of_the_data_misses_a_name(folder: Path) -> None:
    for split in SPLITS:
        env = make_envscaler(split, data=folder, sandbox="process")
        assert isinstance(env, ReleaseEnv)
        for task in env.tasks(split):
            assert name_errors(env.noop_checks(task.id)) == 0
        env.close()


@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_checker_make_and_wrappers(folder: Path, golden: dict[str, Any]) -> None:
    check_env(make_envscaler(data=folder, sandbox="process"), skip_render_check=True)
    made = gymnasium.make("lopd_gym/envscaler-v0", data=folder, sandbox="process")
    assert isinstance(made.unwrapped, ReleaseEnv)
    wrapped: gymnasium.Env[Any, Any] = TimeLimit(made, max_episode_steps=50)
    wrapped.reset(seed=0, options={"task": TASK})
    assert solve(wrapped, golden) == 1.0
    wrapped.close()


def test_the_starter_suite_stands_in_for_an_absent_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path))
    assert isinstance(make_envscaler(), StarterEnv)
    assert make_envscaler(preset="upstream").rules == UPSTREAM
    with pytest.raises(UsageError, match="both"):
        make_envscaler(rules=LOPD, preset="lopd")
    with pytest.raises(UsageError, match="did you mean 'upstream'"):
        make_envscaler(preset="upstreem")
    with pytest.raises(DataError, match="expected one of"):
        make_envscaler(data=tmp_path)


def test_unknown_names_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="No split is called 'trian'; did you mean 'train'"):
        make_envscaler("trian", data=folder, sandbox="process")
    with pytest.raises(UsageError, match="No sandbox is called 'proces'"):
        make_envscaler(data=folder, sandbox="proces")
    env = make_envscaler(data=folder, sandbox="process")
    with pytest.raises(UsageError, match="No task 'env_0'"):
        env.reset(options={"task": "env_0"})
    with pytest.raises(UsageError, match="call reset"):
        env.verify()
    assert ProcessSandbox.name == "process"
