"""``lopd-gym report`` and ``show`` of a comparison."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lopd_gym.cli.main import main
from tests.lopd_gym.report.comparisons import LABELS, comparison
from tests.lopd_gym.report.page import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison(tmp_path_factory.mktemp("compare"))


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["lopd-gym", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(str(caught.value.code))


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    assert call(monkeypatch, "report", folder / "lopd-seed-0") == 0
    assert call(monkeypatch, "report", folder) == 0
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_every_number_of_the_comparison_is_there(page: Page) -> None:
    words = page.words
    for label in LABELS:
        assert label in words
    assert words.count("(sampled and greedy): no difference to lopd shown") == 1
    for number in (
        "0.90 [0.80, 1.00]",
        "0.85 0.90 0.95",
        "-0.10 [-0.20, -0.01]",
        "-0.10 [-inf, +inf]",
        "0.060 0.200 3 / 9 / 52 0.17",
        "0.30 0.40 0.90 240 240 12,346 1.2 1,000",
        "never",
        "4.50 3.50 0.00 40.25 0.01",
        "One seed <i>only</i>.",
    ):
        assert number in words
    assert len(page.find("svg", **{"aria-label": "held-out success over rollouts, greedy"})) == 1


def test_labels_stay_text_and_nothing_is_loaded(page: Page) -> None:
    assert not page.find("b")
    assert not page.find("i")
    hrefs = [attrs["href"] for attrs in page.find("a")]
    outside = [h for h in hrefs if h is not None and not h.startswith("#")]
    assert outside == ["./lopd-seed-0/report.html"]
    assert len(page.find("script")) == 1


def test_tasks_on_which_students_differ_are_shown_side_by_side(page: Page) -> None:
    plays = [attrs["id"] or "" for attrs in page.find("details", **{"class": "episode"})]
    assert [play.split("-")[0] for play in plays] == ["lopd", "grpo"] * 6
    assert page.words.count("missed") >= 6


def test_runs_that_are_gone_leave_a_page(folder: Path, tmp_path: Path) -> None:
    from lopd_gym.report.comparison_page import comparison_page

    (tmp_path / "comparison.json").write_bytes((folder / "comparison.json").read_bytes())
    page = Page(comparison_page(tmp_path))
    assert "Where they differ" not in page.words
    assert page.words.count("not found") == 9


def test_show_prints_the_same_tables(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "show", folder) == 0
    assert "(sampled and greedy): no difference to lopd shown" in capsys.readouterr().out
    assert call(monkeypatch, "show", folder, "--worst") == 2
    assert "name one of the runs in it" in capsys.readouterr().err
