"""``lopd-gym show``: what it counts, which episode is the worst, and hostile episodes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lopd_gym.cli.main import main
from lopd_gym.episode import append_episodes
from lopd_gym.report.phases import read_chosen, read_phases
from lopd_gym.report.text import check_kind, visible
from lopd_gym.tasks import Outcome, Termination
from tests.lopd_gym.report.runs import TASKS, finished_run, hostile_episode, unfinished_run

Show = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("runs") / "run", extra=[hostile_episode()])


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    def call(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["lopd-gym", "show", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return call


def test_the_overview_counts_every_phase_and_check(run: Path, show: Show) -> None:
    said = show(run)
    lines = {line.split()[1]: line for line in said.splitlines() if line.startswith("│")}
    assert f"│       {TASKS} │ 1.00" in lines["train"]
    assert f"submitted {TASKS}," in lines["student-sampled"]
    assert "1 of 13" in said
    order = [line.split()[1] for line in said.splitlines() if "submitted" in line]
    assert order == ["nothing", "base-sampled", "train", "step-000001-sampled", "student-sampled"]


def test_an_episode_is_shown_turn_by_turn(run: Path, show: Show) -> None:
    said = show(run, "--episode", 0)
    transcript = read_first(run)
    for message in transcript:
        for word in str(message["content"]).split():
            assert word in said
        for call in message.get("tool_calls", ()):
            assert f"→ {call['name']}(" in said
    assert said.count("assistant\n") == sum(m["role"] == "assistant" for m in transcript)
    assert "success: score 1.000, ended by submitted" in said
    assert "✓" in said
    assert "✗" not in said


def read_first(run: Path) -> tuple[dict[str, object], ...]:
    return tuple(read_chosen(run, "student-sampled", [0])[0].transcript)


def test_the_worst_is_the_lowest_score_and_can_do_no_harm(run: Path, show: Show) -> None:
    said = show(run, "--worst")
    assert f"episode {TASKS}:" in said
    assert "score 0.000, ended by parse_limit" in said
    assert "[bold]" in said
    assert "\u241b[2J" in said.replace("\n  ", "")
    assert not {"\x1b", "\u202e", "\ud800"} & set(said)
    assert "unreadable: <script>" in said


def test_a_run_without_its_final_evaluation_shows_what_there_is(tmp_path: Path, show: Show) -> None:
    run = unfinished_run(tmp_path / "run")
    assert "step-000001-sampled: checks that failed" in show(run)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--phase", "student-sampeld"), "did you mean 'student-sampled'?"),
        (("--episode", 99), "has no episode 99"),
        (("--episode", 1, "--worst"), "leave --episode out"),
    ],
)
def test_what_is_not_there_is_said(
    run: Path, show: Show, arguments: tuple[object, ...], said: str
) -> None:
    assert said in show(run, *arguments, code=2)


def test_a_folder_that_is_no_run_is_said(tmp_path: Path, show: Show) -> None:
    assert "is not a run folder" in show(tmp_path, code=2)


def test_episodes_that_infrastructure_broke_are_in_no_average(tmp_path: Path) -> None:
    episode = hostile_episode()
    broken = Outcome(None, False, Termination.INFRASTRUCTURE, error="worker died")
    path = tmp_path / "episodes" / "train.jsonl"
    append_episodes(path, [episode, replace(episode, outcome=broken)])
    phase = read_phases(tmp_path)["train"]
    assert (len(phase.episodes), phase.failed, len(phase.played)) == (2, 1, 1)
    assert phase.success is not None
    assert phase.worst().number == 0


@given(st.text())
def test_shown_text_obeys_no_control_code_and_can_be_written(text: str) -> None:
    shown = visible(text + "\ud800\x9b")
    assert len(shown) == len(text) + 2
    shown.encode("utf-8")
    assert not any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in shown)
    assert visible(shown) == shown


def test_checks_of_the_same_kind_are_counted_together() -> None:
    assert check_kind("return L41: by is mail") == check_kind("return L-7: by is mail")
    assert check_kind("no digits here") == "no digits here"
