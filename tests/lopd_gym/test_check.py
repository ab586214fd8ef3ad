"""`envs check`: sound environments pass it, each kind of fault is named."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lopd_gym.check import check_contract, check_split
from lopd_gym.cli.main import main
from lopd_gym.env import ToolEnv
from lopd_gym.messages import AssistantMessage, Message, Observation, ToolCall
from lopd_gym.tasks import Check, Task
from lopd_gym.tools import MethodTools, Toolset, tool

IDS = ("one", "two", "three", "nothing")


class Doors(ToolEnv):
    """Open the door, except where nothing is to be done."""

    name = "doors"

    def tasks(self, split: str) -> Sequence[Task]:
        return [Task(i, split, (Message("user", f"Door {i}."),)) for i in IDS]

    def open(self, task: Task, seed: int) -> Toolset:
        self.opened = False
        return MethodTools(self)

    @tool
    def open_door(self) -> str:
        """Open the door."""
        self.opened = True
        return "open"

    def verify(self) -> Sequence[Check]:
        assert self.task is not None
        return [Check("door", self.opened != (self.task.id == "nothing"))]

    def oracle(self, task: Task) -> Sequence[AssistantMessage] | None:
        idle = task.id == "nothing"
        return [] if idle else [AssistantMessage(tool_calls=(ToolCall("open_door", {}),))]

    def asks_for_nothing(self, task: Task) -> bool:
        return task.id == "nothing"


class Wrong(Doors):
    """Its solution of two tasks is none."""

    def oracle(self, task: Task) -> Sequence[AssistantMessage] | None:
        return [] if task.id in ("one", "two") else super().oracle(task)


class Known(Wrong):
    """The same, but it says so of one."""

    def impossible(self, task: Task) -> bool:
        return task.id == "one"


class Undeclared(Doors):
    """Does not say that a task asks for nothing."""

    def asks_for_nothing(self, task: Task) -> bool:
        return False


class Overdeclared(Doors):
    """Says that all tasks ask for nothing."""

    def asks_for_nothing(self, task: Task) -> bool:
        return True


class Unsolved(Doors):
    """Knows no solution."""

    def oracle(self, task: Task) -> Sequence[AssistantMessage] | None:
        return None


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Doors, None),
        (Wrong, "expected the known solutions to succeed, found that they fail in one, two."),
        (Known, "found that they fail in two."),
        (Undeclared, "expected doing nothing to fail, found that it succeeds in nothing."),
        (Overdeclared, "failed in one, two, three."),
        (Unsolved, None),
    ],
)
def test_each_fault_is_named(kind: type[Doors], fault: str | None) -> None:
    found = check_split(kind, kind().tasks("train"))
    if fault is None:
        assert found.fault is None
    else:
        assert fault in (found.fault or "")
    assert found.impossible == (("one",) if kind is Known else ())
    assert found.known == (() if kind is Unsolved else found.tasks)


class Numbers(Doors):
    """Shows numbers instead of messages."""

    def reset(self, **options: Any) -> tuple[Observation, dict[str, Any]]:
        _, info = super().reset(**options)
        return (1, 2), info  # type: ignore[return-value]


class Forgetful(Doors):
    """Shows something else each time."""

    resets = 0

    def reset(self, **options: Any) -> tuple[Observation, dict[str, Any]]:
        self.resets += 1
        messages, info = super().reset(**options)
        return (*messages, Message("user", str(self.resets))), info


def test_the_contract_is_checked() -> None:
    task = Doors().tasks("train")[0]
    assert check_contract(Doors(), task) is None
    assert "breaks Gymnasium's contract" in (check_contract(Numbers(), task) or "")
    assert check_contract(Forgetful(), task) is not None


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["lopd-gym", "envs", "check", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def test_the_command_on_the_starter_suite_and_on_a_wrong_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path))
    assert run(monkeypatch, "envscaler", "--tasks", "3") == 0
    assert capsys.readouterr().out.count("3 of 3") == 3
    assert run(monkeypatch, "envscaler", "--set", "rollouts=3") == 2
    assert "only the environment" in capsys.readouterr().err


def test_the_command_on_acebench(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(data_folder / "acebench")
    assert run(monkeypatch, "acebench", "--data", folder, "--tasks", "5") == 0
    assert "split agent_multi_turn was not played" in capsys.readouterr().out
