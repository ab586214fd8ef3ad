"""A phase keeps what is finished, through kills and through failures of the infrastructure."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from lopd_envs.envscaler import StarterEnv

from lopd_gym.env import ToolEnv
from lopd_gym.episode import GREEDY, Episode, read_episodes
from lopd_gym.errors import InfrastructureError
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.policy.scripted import ScriptedPolicy, nothing
from lopd_gym.run.phase import play_phase

ORDINARY = StarterEnv.verify
JOBS = [Job(task.id, 0) for task in StarterEnv("train").tasks("train")[:20]]


class Verifier:
    """Verifies as the environment does, remembers whose turn it was, and may break."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, broken: Any = ()) -> None:
        self.seen: list[str] = []
        self.broken = broken
        monkeypatch.setattr(StarterEnv, "verify", lambda env: self.verify(env))

    def verify(self, env: ToolEnv) -> Any:
        """Fail for the broken tasks, and otherwise tell the outcome."""
        task_id = env.task.id if env.task else ""
        self.seen.append(task_id)
        if task_id in self.broken:
            raise ConnectionError("the server is gone")
        return ORDINARY(env)  # type: ignore[arg-type]


def play(path: Path) -> tuple[list[Episode], list[str]]:
    """Play the phase in chunks of eight; returns the episodes and whom the progress bar counted."""
    counted: list[str] = []
    limits = LoopLimits(concurrency=4)
    with AgentLoop(StarterEnv, ScriptedPolicy(nothing), GREEDY, limits) as loop:
        episodes = play_phase(loop, JOBS, path, lambda e: counted.append(e.task_id), 0.1)
    return episodes, counted


def play_until_killed(path: Path) -> None:
    """Play, and be killed while the 14th episode is verified."""
    verified = 0

    def verify(env: StarterEnv) -> Any:
        nonlocal verified
        verified += 1
        if verified == 14:
            os.kill(os.getpid(), signal.SIGKILL)
        return ORDINARY(env)

    StarterEnv.verify = verify  # type: ignore[assignment,method-assign]
    play(path)


def test_a_kill_loses_no_finished_episode_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sidecar = tmp_path / "oracle.jsonl", tmp_path / ".oracle.jsonl.finished"
    process = multiprocessing.get_context("forkserver").Process(
        target=play_until_killed, args=(path,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    kept = [e.task_id for e in [*read_episodes(path), *read_episodes(sidecar)]]
    assert len(kept) >= 12
    with sidecar.open("ab") as file:
        file.write(b'{"task_id": "torn')

    verifier = Verifier(monkeypatch)
    episodes, counted = play(path)
    assert sorted(verifier.seen + kept) == sorted(job.task_id for job in JOBS)
    assert [e.task_id for e in episodes] == [job.task_id for job in JOBS]
    assert sorted(counted) == sorted(job.task_id for job in JOBS)
    assert [e.to_json() for e in read_episodes(path)] == [e.to_json() for e in episodes]
    assert os.listdir(tmp_path) == [path.name]


def test_after_too_many_failures_only_those_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "oracle.jsonl"
    broken = [job.task_id for job in JOBS[2:8]]
    Verifier(monkeypatch, broken)
    with pytest.raises(InfrastructureError, match="6 of 8 episodes failed"):
        play(path)

    verifier = Verifier(monkeypatch)
    episodes, counted = play(path)
    assert sorted(verifier.seen) == sorted(job.task_id for job in JOBS[2:])
    assert not any(e.failed for e in episodes)
    assert [e.task_id for e in episodes] == [job.task_id for job in JOBS]
    assert sorted(counted) == sorted(job.task_id for job in JOBS)
    assert [e.to_json() for e in read_episodes(path)] == [e.to_json() for e in episodes]


def test_failures_that_a_phase_bore_are_left_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "oracle.jsonl"
    Verifier(monkeypatch, [JOBS[3].task_id])
    play(path)
    verifier = Verifier(monkeypatch)
    episodes, _ = play(path)
    assert verifier.seen == []
    assert [e.failed for e in episodes].count(True) == 1
