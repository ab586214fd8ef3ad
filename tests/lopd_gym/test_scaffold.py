"""`lopd-gym envs new` writes a package that is sound as it stands, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lopd_gym.cli.main import app
from lopd_gym.errors import UsageError
from lopd_gym.scaffold import NewEnvironment, write_package

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new package, registered as an editable installation would."""
    folder = tmp_path_factory.mktemp("new") / "travel-desk"
    result = CliRunner().invoke(app, ["envs", "new", "travel-desk", "--to", str(folder)])
    assert result.exit_code == 0, result.output
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / "travel_desk-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: travel-desk\nVersion: 0.1.0\n")
    lines = ["[lopd_gym.envs]"]
    lines += [f"{k} = {v}" for k, v in project["entry-points"]["lopd_gym.envs"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def run(package: Path, *command: str, cwd: Path | None = None, given: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    environment["MYPYPATH"] = str(package)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd or package,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_its_own_tests_and_the_check_of_environments_pass(package: Path) -> None:
    assert "4 passed" in run(package, "pytest", "-q", "-p", "no:cacheprovider")
    checked = run(package, "lopd_gym.cli.main", "envs", "check", "travel-desk")
    assert "20 of 20" in checked
    assert "9 of 9" in checked


def test_linters_and_types_have_nothing_to_say(package: Path) -> None:
    run(package, "ruff", "check", "--isolated", "--no-cache", ".")
    run(package, "ruff", "format", "--isolated", "--no-cache", "--check", ".")
    files = [str(path) for path in package.glob("*/*.py")]
    assert len(files) == 2
    run(package, "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files, cwd=ROOT)


def test_a_person_plays_it(package: Path) -> None:
    play = ("lopd_gym.cli.main", "envs", "play", "travel-desk", "--task", "train/study-20")
    lines = [
        "?",
        "list_rooms {}",
        'set_temperature {"room": 3}',
        "set_temperature {bad",
        "set_temperature",  # asks for the room, then for the degrees
        "study",
        "20",
        "Done.",
    ]
    said = run(package, *play, given="\n".join(lines))
    assert "Please make the study 20 degrees warm." in said
    assert '["kitchen","study","bedroom"]' in said
    assert "argument room: Input should be a valid string" in said
    assert "These arguments are no JSON" in said
    assert "success: score 1.000, ended by submitted, 4 turns" in said
    assert "nothing was scored" in run(package, *play, given="list_rooms {}\n")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Travel_Desk", "in lower case"),
        ("../escape", "in lower case"),
        ("envscaler", "installed already"),
        ("json", "Python knows"),
        ("class", "Python knows"),
        ("pytest", "Python knows"),
    ],
)
def test_a_name_that_cannot_be_is_refused(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        NewEnvironment(name)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        write_package(NewEnvironment("travel-desk"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        write_package(NewEnvironment("travel-desk"), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
