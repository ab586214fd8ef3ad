"""``lopd-gym sandbox``, with backends of the tests' own."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym import registry
from lopd_gym.cli.main import main
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Isolation, Probe


class Leaky(ProcessSandbox):
    """Claims to isolate, and does not."""

    name = "leaky"
    isolation = Isolation.CONTAINER

    @classmethod
    def probe(cls) -> Probe:
        return Probe(Isolation.CONTAINER, "says so itself")

    @classmethod
    def build(cls) -> str:
        return "built"

    @classmethod
    def clean(cls) -> list[str]:
        return ["left-1", "left-2"]


class Absent(ProcessSandbox):
    name = "absent"

    @classmethod
    def probe(cls) -> Probe:
        return Probe(None, "the engine is missing: start it")

    @classmethod
    def build(cls) -> str:
        raise InfrastructureError("No engine answers.")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command where these sandboxes are all there is; returns its exit code and output."""

    def run(*arguments: str, **kinds: type) -> tuple[Any, str]:
        monkeypatch.setattr(registry, "names", lambda group: sorted(kinds))
        monkeypatch.setattr(registry, "load", lambda group, name: kinds[name])
        monkeypatch.setattr("lopd_gym.isolation.names", registry.names)
        monkeypatch.setattr("lopd_gym.isolation.load", registry.load)
        monkeypatch.setattr(sys, "argv", ["lopd-gym", "sandbox", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return caught.value.code, " ".join((captured.out + captured.err).split())

    return run


def test_the_doctor_finds_a_sandbox_that_does_not_hold_and_attacks_no_further(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lopd_gym.containment.ATTACKS", ())  # nothing harmful, whatever fails
    code, said = run("doctor", leaky=Leaky)
    assert code == 1
    assert "system calls are not filtered" in said
    assert "not tried" in said


def test_the_doctor_names_the_fix_and_never_chooses_no_isolation(run: Any) -> None:
    code, said = run("doctor", absent=Absent, process=ProcessSandbox)
    assert code == 1
    assert "the engine is missing" in said
    assert "No sandbox that isolates works here" in said


def test_building_and_cleaning_go_on_where_one_is_absent(run: Any) -> None:
    code, said = run("build", absent=Absent, leaky=Leaky, process=ProcessSandbox)
    assert (code, said) == (0, "absent: not available. No engine answers. leaky: built")
    code, said = run("clean", absent=Absent, leaky=Leaky)
    assert (code, said) == (0, "leaky: removed left-1, left-2")


def test_building_one_that_is_absent_fails(run: Any) -> None:
    assert run("build", "absent", absent=Absent) == (1, "Error: No engine answers.")
