"""A run that is killed again and again ends as an undisturbed one does."""

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

pytestmark = pytest.mark.timeout(900)

SMALL = (
    "rollouts=168",
    "bank_rollouts=64",
    "episodes_per_step=8",
    "evaluation.tasks=16",
    "evaluation.curve_tasks=8",
    "evaluation.every=2",
    "limits.concurrency=16",
    "learner.cold_start_steps=2",
)
MAIN = (sys.executable, "-m", "lopd_gym.cli.main", "run")


def start(folder: Path) -> subprocess.Popen[str]:
    """Start the small run in a folder, or continue it where there is one."""
    command = [*MAIN, "--env", "envscaler", "--learner", "lopd", "--out", str(folder)]
    command += [part for change in SMALL for part in ("--set", change)]
    if (folder / "settings.json").exists():
        command = [*MAIN, "--resume", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors


def results(folder: Path) -> tuple[Any, Any, bytes]:
    """Everything a run came to but times, memory and paths."""
    summary = json.loads((folder / "summary.json").read_text())
    for name in ("minutes", "peak_memory_mib", "student"):
        del summary[name]
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    metrics = [
        {k: v for k, v in json.loads(line).items() if not k.endswith("_s")} for line in lines
    ]
    return summary, metrics, (folder / "student" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    finish(start(folder))
    return folder


def test_five_kills_change_no_number(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    rng = np.random.default_rng(0)
    for number in range(5):
        process = start(folder)
        if number == 0:
            wait_for((folder / "episodes" / "bank.jsonl"), process)
        else:
            wait_for(folder / "metrics.jsonl", process)
        time.sleep(float(rng.uniform(0, 0.4)))
        assert process.poll() is None, "the run was over before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finish(start(folder))
    for found, expected in zip(results(folder), results(undisturbed), strict=True):
        assert found == expected


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file has changed, or the run is over."""
    before = path.read_bytes() if path.exists() else b""
    while process.poll() is None and (not path.exists() or path.read_bytes() == before):
        time.sleep(0.02)


def test_ctrl_c_keeps_the_state_and_shows_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    process = start(folder)
    wait_for(folder / "metrics.jsonl", process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"lopd-gym run --resume {folder}" in errors.replace("\n", "")
    assert "Traceback" not in errors
    finish(start(folder))
    assert (folder / "student" / "config.json").exists()


def test_the_exported_student_plays_the_same_greedy_episodes(
    undisturbed: Path, tmp_path: Path
) -> None:
    folder = undisturbed
    command = [*MAIN[:-1], "eval", "--env", "envscaler", "--model", str(folder / "student")]
    command += ["--tasks", "16", "--set", "limits.concurrency=16", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    one, other = (
        [json.loads(line)["token_ids"] for line in path.read_text().splitlines()]
        for path in (folder / "episodes" / "student-greedy.jsonl", tmp_path / "greedy.jsonl")
    )
    assert one == other
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder / "student")
    tokenizer = AutoTokenizer.from_pretrained(folder / "student")
    prompt = tokenizer("Tools:", return_tensors="pt")
    assert model.generate(**prompt, max_new_tokens=2).shape[1] > 1
