"""The commands of `lopd-gym bank`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lopd_gym.bank import Bank
from lopd_gym.cli.bank import app
from lopd_gym.errors import UsageError
from tests.lopd_gym.bank.helpers import experience


def run(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(a) for a in arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Bank.open(tmp_path / "bank") as bank:
        bank.add([experience(i, group="[red]g[/red]") for i in range(20)])
    return tmp_path / "bank"


def test_search_shows_task_and_steps(folder: Path) -> None:
    output = run("search", folder, "Cancel the booking of customer 10", "-k", 1)
    assert "Please cancel the booking of customer 10." in output
    assert '1. cancel_booking(customer_id="10")' in output
    assert "task-11" not in output


def test_search_without_a_hit_says_so(folder: Path) -> None:
    assert "no such experience" in run("search", folder, "Cancel", "--env", "absent")


def test_stats_show_counts_and_never_read_markup(folder: Path) -> None:
    output = run("stats", folder)
    assert "20 experiences" in output
    assert "[red]g[/red]" in output
    assert "20 of 20 distinct task texts indexed" in output


def test_export_then_import_makes_the_same_bank(folder: Path, tmp_path: Path) -> None:
    assert "20 experiences" in run("export", folder, tmp_path / "out.jsonl")
    assert "20 new" in run("import", tmp_path / "copy", tmp_path / "out.jsonl")
    assert "0 new" in run("import", tmp_path / "copy", tmp_path / "out.jsonl")
    with Bank.open(tmp_path / "copy") as copy, Bank.open(folder) as bank:
        assert list(copy) == list(bank)


def test_a_folder_without_a_bank_is_refused_and_left_alone(tmp_path: Path) -> None:
    for command in (["search", tmp_path, "x"], ["stats", tmp_path], ["export", tmp_path, "f"]):
        with pytest.raises(UsageError, match="no bank"):
            run(*command)
    assert not list(tmp_path.iterdir())
