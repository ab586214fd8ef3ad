"""``lopd-gym report`` of a run: what is in the file, and what can never get out of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lopd_gym.cli.main import main
from lopd_gym.episode import append_episodes, read_episodes
from lopd_gym.errors import DataError, LopdGymError
from lopd_gym.report.run_page import run_page
from lopd_gym.report.write import write_report
from lopd_gym.run.folder import RunFolder, append_line
from tests.lopd_gym.report.page import Page
from tests.lopd_gym.report.runs import (
    TASKS,
    finished_run,
    hostile_episode,
    settings_of,
    unfinished_run,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("runs") / "run", extra=[hostile_episode()])


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return Page(run_page(run))


def test_a_page_that_cannot_be_written_is_named_and_leaves_nothing(
    run: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(LopdGymError, match=r"^Cannot write .*/taken: Is a directory\.$"):
        write_report(run, tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(LopdGymError, match=r"^Cannot write .*/absent/page.html: No such file"):
        write_report(run, tmp_path / "absent" / "page.html")


def test_damaged_records_are_named(tmp_path: Path) -> None:
    folder = RunFolder(finished_run(tmp_path / "run"))
    folder.metrics.write_bytes(b"\xff\n")
    with pytest.raises(DataError, match=r"metrics.jsonl holds a line that is not JSON"):
        run_page(folder.path)
    folder.metrics.unlink()
    folder.episodes("student-greedy").write_text("[1]\n")
    with pytest.raises(DataError, match=r"student-greedy.jsonl, line 1: not an episode"):
        list(read_episodes(folder.episodes("student-greedy")))


def test_the_file_says_what_the_run_came_to(page: Page) -> None:
    assert "Success rose: 0.25 before training, 0.90 after it" in page.words
    assert "+0.65 [+0.50, +0.80]" in page.words
    assert "student, sampled 0.92 [0.67, 0.99]" in page.words
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for section in ("results", "training", "checks", "phases", "episodes", "settings"):
        assert section in ids
        assert page.find("a", href=f"#{section}")
    assert "parse_limit 1" in page.words
    assert page.find("svg", **{"aria-label": "held-out success over rollouts"})
    assert page.find("svg", **{"aria-label": "loss over rollouts"})


def test_episodes_are_shown_with_their_reasons(page: Page) -> None:
    shown = page.find("details", **{"class": "episode"})
    tags = {tag for attrs in shown for tag in (attrs["data-tags"] or "").split("|")}
    assert {"worst", "gained", "gained: before", "solved", "ended early", "training"} <= tags
    assert len(shown) <= 30
    assert f"of {5 * TASKS + 1} episodes" in page.words


def test_hostile_episodes_stay_text(run: Path, page: Page) -> None:
    names = {tag for tag, _ in page.tags}
    assert "img" not in names
    assert len(page.find("script")) == 1
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert page.words.count('<script>document.title="owned"</script>') >= 8
    html = run_page(run)
    assert "[bold]\u241b[2J\ufffd" in html
    assert not {"\x1b", "\u202e", "\ud800"} & set(html)
    assert html.count("<script") == 1


def test_the_file_loads_nothing_and_runs_only_its_own_script(page: Page) -> None:
    (policy,) = page.find("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "default-src 'none'" in (policy["content"] or "")
    assert "script-src 'sha256-" in (policy["content"] or "")
    assert "unsafe-inline'; script" in (policy["content"] or "")
    for _, attrs in page.tags:
        assert "src" not in attrs
        assert str(attrs.get("href", "#")).startswith("#")


def many(count: int) -> Iterator[object]:
    """Long episodes of a text that grows fivefold when it is escaped."""
    episode = hostile_episode()
    said = tuple({"role": "tool", "content": "<\"'&>\u4e16" * 300} for _ in range(14))
    for number in range(count):
        yield replace(episode, task_id=f"task-{number}", transcript=said, seed=number)


def test_a_thousand_episodes_fit_two_megabytes(tmp_path: Path) -> None:
    run = unfinished_run(tmp_path / "run")
    append_episodes(run / "episodes" / "student-sampled.jsonl", many(1_000))  # type: ignore[arg-type]
    html = run_page(run)
    assert len(html.encode()) < 2_000_000
    page = Page(html)
    assert f"of {4 * TASKS + 1_000} episodes" in page.words
    assert "more characters]" in page.words


def test_a_run_that_is_not_finished_has_a_page(tmp_path: Path) -> None:
    page = Page(run_page(unfinished_run(tmp_path / "run")))
    assert "Not finished: 3 training steps are done." in page.words
    assert "nan" not in page.words.lower().split()


def test_a_run_that_has_only_begun_has_a_page(tmp_path: Path) -> None:
    folder = RunFolder.create(settings_of("grpo"), tmp_path, tmp_path / "run")
    append_episodes(folder.episodes("nothing"), [hostile_episode()])
    append_episodes(folder.episodes("base-sampled"), [])
    page = Page(run_page(folder.path))
    assert "Not finished: 0 training steps are done." in page.words
    assert "1 of 1 episodes" in page.words


def test_a_long_run_stays_a_small_file(tmp_path: Path) -> None:
    run = unfinished_run(tmp_path / "run")
    (run / "metrics.jsonl").unlink()
    for step in range(1, 3_001):
        values = {f"metric {n}": n + step % 7 for n in range(30)}
        append_line(run / "metrics.jsonl", {"step": step, "rollouts": 32 * step, **values})
    html = run_page(run)
    assert len(html.encode()) < 500_000
    assert html.count('aria-label="metric') == 30


def test_the_command_writes_the_file(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def report(*arguments: str, code: int) -> str:
        monkeypatch.setattr(sys, "argv", ["lopd-gym", "report", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == code
        return "".join(capsys.readouterr())

    assert "report.html" in report(str(run), code=0)
    assert Page((run / "report.html").read_text(encoding="utf-8")).find("h1")
    elsewhere = tmp_path / "page.html"
    report(str(run), "--out", str(elsewhere), code=0)
    assert elsewhere.exists()
    assert "is not a run folder" in report(str(tmp_path), code=2)
    assert "No such file" in report(str(run), "--out", str(tmp_path / "a" / "b.html"), code=1)
