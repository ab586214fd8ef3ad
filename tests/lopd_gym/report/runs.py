"""Run folders for the tests: scripts play the starter suite, so there is no model to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lopd_gym.cli.assemble import resolve
from lopd_gym.episode import GREEDY, Episode, append_episodes
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.policy.scripted import Script, ScriptedPolicy, nothing, oracle, random_calls
from lopd_gym.run.build import env_maker
from lopd_gym.run.folder import RunFolder, append_line, write_json
from lopd_gym.run.settings import TINY_DEFAULTS, RunSettings, merge, validate
from lopd_gym.tasks import Check, Outcome, Termination

HOSTILE = '<script>document.title="owned"</script><img src=x onerror=alert(1)>[bold]\x1b[2J\u202e'
TASKS = 12


def settings_of(learner: str) -> RunSettings:
    values: dict[str, Any] = {"env": {"name": "envscaler"}, "learner": {"name": learner}}
    merge(values, {**TINY_DEFAULTS, "model": {"source": "tiny"}})
    return validate(RunSettings, resolve(values, [f"evaluation.tasks={TASKS}"]), "a run")


def play(script: Script, split: str, count: int) -> list[Episode]:
    make_env = env_maker({"name": "envscaler"}, split)
    env = make_env()
    jobs = [Job(env.tasks(split)[i].id, i) for i in range(count)]
    with AgentLoop(make_env, ScriptedPolicy(script), GREEDY, LoopLimits(concurrency=4)) as loop:
        return loop.play(jobs)


def unfinished_run(path: Path, learner: str = "lopd") -> Path:
    """Make a run that was killed before its final evaluation."""
    folder = RunFolder.create(settings_of(learner), path.parent, path)
    make_env = env_maker({"name": "envscaler"}, "train")
    right = oracle(make_env())
    for phase, script, split in (
        ("nothing", nothing, "test"),
        ("base-sampled", random_calls(), "test"),
        ("train", right, "train"),
        ("step-000001-sampled", random_calls(2), "test"),
    ):
        append_episodes(folder.episodes(phase), play(script, split, TASKS))
    for step in (1, 2, 3):
        row = {"step": step, "rollouts": 192 + 48 * step, "success": 0.2 * step, "loss": 1 / step}
        append_line(folder.metrics, {**row, "beta": float("nan") if step == 2 else 0.1})
    return path


def finished_run(
    path: Path, learner: str = "lopd", extra: Sequence[Episode] = (), student: Script | None = None
) -> Path:
    """Make a run whose student plays like the oracle, or a script, and whatever else is given."""
    unfinished_run(path, learner)
    folder = RunFolder(path)
    student = student or oracle(env_maker({"name": "envscaler"}, "test")())
    append_episodes(folder.episodes("student-sampled"), [*play(student, "test", TASKS), *extra])
    write_json(folder.summary, _summary(learner, path))
    return path


def hostile_episode() -> Episode:
    """Return an episode in which everything that may be hostile is."""
    (episode,) = play(random_calls(1), "test", 1)
    call = {"name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    transcript = (
        {"role": "system", "content": HOSTILE},
        {"role": "user", "content": HOSTILE},
        {"role": "assistant", "content": HOSTILE, "reasoning": HOSTILE, "tool_calls": [call]},
        {"role": "tool", "content": HOSTILE + "\ud800"},
        {"role": "assistant", "content": "", "parse_error": HOSTILE},
    )
    checks = (Check(HOSTILE, False, HOSTILE),)
    outcome = Outcome(0.0, False, Termination.PARSE_LIMIT, checks, HOSTILE)
    return replace(
        episode, task_id=HOSTILE, group=HOSTILE, transcript=transcript, outcome=outcome, turns=2
    )


def _summary(learner: str, path: Path) -> dict[str, Any]:
    def interval(mean: float) -> dict[str, float]:
        return {"mean": mean, "low": max(0.0, mean - 0.1), "high": min(1.0, mean + 0.1)}

    rates = {"do nothing": 0.0, "base": 0.25, "student": 0.9}
    rows = [
        {
            **{"policy": policy, "mode": mode, "tasks": TASKS, "failed": 0},
            **{"success": interval(rate), "score": interval(rate)},
        }
        for policy, rate in rates.items()
        for mode in ("sampled", "greedy")
    ]
    curve = [
        (n, mode, 0.25 + n / 1000) for mode in ("sampled", "greedy") for n in (0, 240, 480, 650)
    ]
    return {
        **{"env": "envscaler:starter", "split": "test", "data_hash": "2f2b40fcd5142276"},
        **{"learner": learner, "model": "tiny", "seed": 0, "rows": rows, "curve": curve},
        "gain": {mode: {"mean": 0.65, "low": 0.5, "high": 0.8} for mode in ("sampled", "greedy")},
        **{"rollouts": {"bank": 192, "training": 480, "total": 672}, "tokens": 12_345},
        **{"minutes": {"training": 1.5, "bank": 0.2}, "peak_memory_mib": 1000.0},
        "student": str(path / "student"),
    }
