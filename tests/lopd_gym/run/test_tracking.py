"""Trackers: what arrives in them, what a resume leaves, and what is missing or broken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lopd_gym.cli.main import main
from lopd_gym.errors import LopdGymError
from lopd_gym.run import tracking
from lopd_gym.run.folder import RunFolder, read_lines
from lopd_gym.run.settings import RunSettings
from lopd_gym.run.tracking import open_tracker
from tests.lopd_gym.report.runs import settings_of
from tests.lopd_gym.run.test_run import new_run


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """All numbers that TensorBoard would show, by name."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard"
    )
    events = accumulator.EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_tensorboard_shows_the_metrics_of_a_run_and_its_curve(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = new_run(
        tmp_path / "run",
        *("rollouts=56", "tracker=tensorboard", "evaluation.tasks=2", "evaluation.greedy=false"),
        *("evaluation.every=1", "evaluation.curve_tasks=2"),
    )
    run.go()
    shown, rows = scalars(run.folder.path), read_lines(run.folder.metrics)
    assert len(rows) == 3
    for name in rows[0]:
        expected = [(row["step"], pytest.approx(row[name], rel=1e-5)) for row in rows]
        assert shown[f"train/{name}"] == expected
    curve = [(s, run.evaluations[f"step-{s:06d}-sampled"].success().mean) for s in (1, 2)]
    assert shown["eval/sampled"] == curve
    final, base = run.evaluations["student-sampled"], run.evaluations["base-sampled"]
    for name, value in (
        ("success", final.success().mean),
        ("score", final.score().mean),
        ("gain", final.gain_over(base).mean),
    ):
        assert shown[f"final/sampled/{name}"] == [(3, pytest.approx(value, abs=1e-6))]
    assert not any(name.startswith("final/greedy") for name in shown)


@pytest.fixture
def opened(tmp_path: Path) -> tuple[RunSettings, RunFolder]:
    settings = settings_of("rft")
    return settings, RunFolder.create(settings, tmp_path, tmp_path / "a run")


def test_a_resumed_run_replaces_what_was_logged_after_its_checkpoint(opened: Any) -> None:
    pytest.importorskip("tensorboard")
    settings, folder = opened
    settings = settings.model_copy(update={"tracker": "tensorboard"})
    for done, value in ((0, 1.0), (1, 2.0)):
        with open_tracker(settings, folder, done) as tracker:
            for step in range(done + 1, 4):
                tracker.log(step, {"loss": value})
    assert scalars(folder.path)["loss"] == [(1, 1.0), (2, 2.0), (3, 2.0)]


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_other_trackers_take_a_run_and_its_resume(
    name: str, opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # it is read on import
    monkeypatch.setenv("WANDB_MODE", "offline")
    pytest.importorskip(name)
    settings, folder = opened
    settings = settings.model_copy(update={"tracker": name})
    for done in (0, 1):
        with open_tracker(settings, folder, done) as tracker:
            tracker.log(done + 1, {"train/loss": 0.5, "train/beta": float("nan")})
    kept = (tmp_path / "trackio").glob("*.db") if name == "trackio" else folder.path.glob("wandb/*")
    assert any(kept)


def test_a_missing_package_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    out = tmp_path / "run"
    arguments = ("run", "--env", "envscaler", "--learner", "rft", "--set", "tracker=wandb")
    monkeypatch.setattr(sys, "argv", ["lopd-gym", *arguments, "--out", str(out)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "pip install 'lopd-gym[wandb]'" in capsys.readouterr().err
    assert not out.exists()


def test_a_tracker_that_cannot_start_is_named(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("no network")

    monkeypatch.setitem(tracking._TRACKERS, "wandb", Broken)
    monkeypatch.setattr(tracking, "find_spec", lambda name: True)
    settings, folder = opened
    settings = settings.model_copy(update={"tracker": "wandb"})
    with (
        pytest.raises(LopdGymError, match=r"'wandb' cannot start \(no network\)"),
        open_tracker(settings, folder, 0),
    ):
        pass
