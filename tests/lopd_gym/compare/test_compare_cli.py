"""The command: it plays, survives kills, refuses what is wrong, and compares finished folders."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lopd_gym.cli.main import main
from tests.lopd_gym.run.processes import (
    finish,
    recorded,
    start_comparison,
    wait_until_recorded,
)

pytestmark = pytest.mark.timeout(600)
SMALL = (
    "episodes_per_step=8",
    "evaluation.tasks=16",
    "evaluation.every=0",
    "limits.concurrency=16",
)
COMPARE = ("--env", "envscaler", "--learners", "rft,grpo", "--seeds", "2", "--rollouts", "56")


def command(folder: Path) -> tuple[str, ...]:
    """What starts a small comparison, or goes on with the one that is there."""
    if (folder / "comparison-settings.json").exists():
        return ("--resume", str(folder), "--jobs", "2")
    small = (part for change in SMALL for part in ("--set", change))
    return (*COMPARE, *small, "--out", str(folder), "--jobs", "2")


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
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of an undisturbed comparison, and what it said."""
    folder = tmp_path_factory.mktemp("compare") / "calm"
    log = folder.with_suffix(".log")
    finish(start_comparison(log, *command(folder)), log)
    return folder, log.read_text()


def test_it_ends_with_tables_verdicts_and_files(calm: tuple[Path, str]) -> None:
    folder, said = calm
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


def test_all_learners_start_from_the_same_base_and_tasks(calm: tuple[Path, str]) -> None:
    folder, _ = calm
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


def test_three_kills_at_random_moments_lose_nothing(calm: tuple[Path, str], tmp_path: Path) -> None:
    calm_folder, _ = calm
    folder, log = tmp_path / "killed", tmp_path / "killed.log"
    random = np.random.default_rng(0)
    for size in recorded(calm_folder) * np.sort(random.uniform(0.05, 0.9, 3)):
        process = start_comparison(log, *command(folder))
        wait_until_recorded(folder, size, process)
        process.join(random.uniform(0, 0.1))
        assert process.exitcode is None, "it was over before it could be killed"
        before = finished(folder)
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        after = finished(folder)
        assert before.items() <= after.items()
    before = finished(folder)
    finish(start_comparison(log, *command(folder)), log)
    assert before.items() <= finished(folder).items(), "a finished run was played again"
    assert numbers(folder) == numbers(calm_folder)


def test_finished_folders_can_be_compared(
    calm: tuple[Path, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, _ = calm
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
