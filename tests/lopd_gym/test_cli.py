"""Mistakes on the command line get one sentence and the right exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = ("run", "--env", "envscaler", "--learner", "lopd")


def lopd_gym(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lopd_gym.cli.main", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("run", "--env", "envscalr", "--learner", "lopd"), "did you mean 'envscaler'", 2),
        (("run", "--env", "envscaler", "--learner", "lodp"), "did you mean 'lopd'", 2),
        ((*RUN, "--preset", "papr"), "did you mean 'paper'", 2),
        ((*RUN, "--set", "learner.margn=1"), "did you mean 'margin'", 2),
        ((*RUN, "--set", "rolouts=1"), "did you mean 'rollouts'", 2),
        ((*RUN, "--set", "env.sandbx=x"), "did you mean 'sandbox'", 2),
        ((*RUN, "--set", "learner.items=0"), "items", 2),
        ((*RUN, "--rollouts", "200"), "must cover bank_rollouts", 2),
        ((*RUN, "--set", "evaluation.split=tset"), "did you mean 'test'", 2),
        (("run", "--env", "envscaler"), "needs --env and --learner", 2),
        (("run", "--resume", "nowhere"), "not a run folder", 2),
        (("eval", "--env", "envscaler", "--script", "orcale"), "did you mean 'oracle'", 2),
        (("eval", "--env", "envscaler", "--split", "tst"), "did you mean 'test'", 2),
        (("eval", "--env", "envscaler", "--model", "./absent/model"), "No model at", 1),
        (("eval", "--env", "envscaler", "--data", "/nonexistent"), "/nonexistent", 1),
        (("learners", "show", "grpoo"), "No learner is called", 2),
        (("data", "pull", "envscalr"), "did you mean 'envscaler'", 2),
    ],
)
def test_a_mistake_gets_one_sentence(arguments: tuple[str, ...], words: str, code: int) -> None:
    done = lopd_gym(*arguments)
    assert words in done.stderr
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert not Path("runs").exists()


def test_a_model_folder_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    done = lopd_gym("eval", "--env", "envscaler", "--model", str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr.replace("\n", "")


def test_a_run_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = lopd_gym(*RUN, "--out", str(tmp_path / "file" / "run"))
    assert done.returncode == 2
    assert "Cannot write the run folder" in done.stderr


def test_no_network_on_data_pull(tmp_path: Path) -> None:
    done = lopd_gym("data", "pull", "envscaler", LOPD_GYM_HOME=str(tmp_path), HF_HUB_OFFLINE="1")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


def test_truncated_data_is_refused(data_folder: Path, tmp_path: Path) -> None:
    source = data_folder / "envscaler"
    for name in ("env_metadata_subset.json", "rl_scenarios_subset.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    cut = tmp_path / "rl_scenarios_subset.json"
    cut.write_bytes(cut.read_bytes()[:-1000])
    done = lopd_gym("eval", "--env", "envscaler", "--data", str(tmp_path), "--script", "nothing")
    assert done.returncode == 1
    assert "rl_scenarios_subset.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_resume_with_other_settings_names_the_difference(tmp_path: Path) -> None:
    from lopd_gym.cli.run import resolve
    from lopd_gym.run.folder import RunFolder
    from lopd_gym.run.settings import TINY_DEFAULTS, RunSettings, merge, validate

    values: dict[str, object] = {"env": {"name": "envscaler"}, "learner": {"name": "lopd"}}
    merge(values, {**TINY_DEFAULTS, "model": {"source": "tiny", "student": {"kind": "full"}}})
    settings = validate(RunSettings, resolve(values, []), "the run")
    folder = RunFolder.create(settings, tmp_path, tmp_path / "run").path
    done = lopd_gym(*RUN, "--resume", str(folder), "--set", "learner.items=1")
    assert done.returncode == 2
    assert "learner.items" in done.stderr
