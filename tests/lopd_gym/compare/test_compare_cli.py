"""The command: it plays, survives kills, refuses what is wrong, and compares finished folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lopd_gym.cli.main import main

pytestmark = pytest.mark.timeout(600)
SMALL = (
    "episodes_per_step=8",
    "evaluation.tasks=16",
    "evaluation.every=0",
    "limits.concurrency=16",
)
COMPARE = (sys.executable, "-m", "lopd_gym.cli.main", "compare")


def start(folder: Path) -> subprocess.Popen[str]:
    """Start a small comparison in a process group of its own, or go on with it."""
    if (folder / "comparison-settings.json").exists():
        command = [*COMPARE, "--resume", str(folder)]
    else:
        command = [*COMPARE, "--env", "envscaler", "--learners", "rft,grpo", "--seeds", "2"]
        command += ["--rollouts", "56", "--out", str(folder)]
        command += [part for change in SMALL for part in ("--set", change)]
    return subprocess.Popen(
        [*command, "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    said, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return said


def numbers(folder: Path) -> Any:
    """All of a comparison but times, memory and paths."""
    found = json.loads((folder / "comparison.json").read_text())
    for learner in found["learners"]:
        for name in ("runs", "minutes", "memory_mib"):
            del learner[name]
    return found


def finished(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float, str]:
    folder = tmp_path_factory.mktemp("compare") / "calm"
    started = time.perf_counter()
    said = finish(start(folder))
    return folder, time.perf_counter() - started, said


def test_it_ends_with_tables_verdicts_and_files(calm: tuple[Path, float, str]) -> None:
    folder, _, said = calm
    for words in (
        "final students",
        "success minus that of rft",
        "over the budget",
        "grpo (",
    ):
        assert words in said
    found = json.loads((folder / "comparison.json").read_text())
    assert [x["label"] for x in found["learners"]] == ["rft", "grpo"]
    assert found["seeds"] == [0, 1]
    assert (folder / "comparison.csv").exists()
    page = (folder / "report.html").read_text(encoding="utf-8")
    for run in ("rft-seed-0", "grpo-seed-1"):
        assert (folder / run / "report.html").exists()
        assert f'href="./{run}/report.html"' in page
    assert all((Path(run) / "student").is_dir() for x in found["learners"] for run in x["runs"])


def test_all_learners_start_from_the_same_base_and_tasks(calm: tuple[Path, float, str]) -> None:
    folder, _, _ = calm
    bases = {p.read_bytes() for p in folder.glob("*/episodes/base-greedy.jsonl")}
    tasks = [
        {json.loads(line)["task_id"] for line in path.read_text().splitlines()[:8]}
        for path in sorted(folder.glob("*-seed-0/episodes/train.jsonl"))
    ]
    assert len(tasks) == 2
    assert tasks[0] == tasks[1]
    scores = {
        tuple(json.loads(line)["outcome"]["score"] for line in text.decode().splitlines())
        for text in bases
    }
    assert len(scores) == 1


def test_three_kills_at_random_moments_lose_nothing(
    calm: tuple[Path, float, str], tmp_path: Path
) -> None:
    calm_folder, seconds, _ = calm
    folder = tmp_path / "killed"
    moments = np.sort(np.random.default_rng(0).uniform(2, 0.9 * seconds, 3))
    for delay in np.diff(moments, prepend=0.0):
        process = start(folder)
        time.sleep(float(delay) + 1)
        assert process.poll() is None, "it was over before it could be killed"
        before = finished(folder)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        after = finished(folder)
        assert before.items() <= after.items()
    before = finished(folder)
    finish(start(folder))
    assert before.items() <= finished(folder).items(), "a finished run was played again"
    assert numbers(folder) == numbers(calm_folder)


def test_finished_folders_can_be_compared(
    calm: tuple[Path, float, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, _, _ = calm
    runs = sorted(str(p.parent) for p in folder.glob("grpo-*/summary.json"))
    runs += sorted(str(p.parent) for p in folder.glob("rft-*/summary.json"))
    code, out, _ = call(capsys, *runs, "--json", "--out", str(tmp_path / "again"))
    assert code == 0
    found = json.loads(out)
    assert [x["label"] for x in found["learners"]] == ["grpo", "rft"]
    assert json.loads((tmp_path / "again" / "comparison.json").read_text()) == found


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    old, sys.argv = sys.argv, ["lopd-gym", "compare", *arguments]
    try:
        with pytest.raises(SystemExit) as caught:
            main()
    finally:
        sys.argv = old
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


ENV = ("--env", "envscaler")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*ENV, "--learners", "lopd,grop"), "did you mean 'grpo'"),
        ((*ENV, "--learners", "lopd"), "at least two --learners"),
        ((*ENV, "--learners", "lopd,grpo", "--also", "lopd:composr=frozen"), "'composer'"),
        ((*ENV, "--learners", "lopd,lopd"), "may come once"),
        (("--env", "envscalr", "--learners", "lopd,grpo"), "did you mean 'envscaler'"),
        ((*ENV, "--learners", "rft,grpo", "--set", "episodes_per_step=6"), "multiple of 4"),
        (("--learners", "lopd,grpo"), "--env"),
        (("--resume", "nowhere"), "holds no comparison"),
        (("somewhere", *ENV), "but not both"),
        (("somewhere",), "is not a run folder"),
    ],
)
def test_mistakes_get_one_sentence(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = call(capsys, *arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert not any(tmp_path.iterdir()), "a mistake must not leave a folder behind"
