"""Fixtures: each backend that works here. Name in LOPD_GYM_TEST_SANDBOXES those that must."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lopd_gym.registry import SANDBOXES, load
from lopd_gym.sandbox import Sandbox

ISOLATING = ("bubblewrap", "docker")
REQUIRED = os.environ.get("LOPD_GYM_TEST_SANDBOXES", "").split(",")


def wait_until(condition: Callable[[], Any], seconds: float = 5.0) -> bool:
    """Return whether a condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def processes_with(word: str) -> list[int]:
    """Return the ids of the processes whose command line holds a word that only a test knows."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it ended meanwhile
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


@cache
def make(name: str) -> Sandbox:
    kind = load(SANDBOXES, name)
    probe = kind.probe()
    if probe.isolation is None:
        if name in REQUIRED:
            pytest.fail(f"the sandbox {name} is required, but: {probe.detail}")
        pytest.skip(f"no sandbox {name} here: {probe.detail}")
    made: Sandbox = kind()
    return made


@pytest.fixture(scope="session", params=("process", *ISOLATING))
def sandbox(request: pytest.FixtureRequest) -> Any:
    """Each backend."""
    return make(request.param)


@pytest.fixture(scope="session", params=ISOLATING)
def isolating(request: pytest.FixtureRequest) -> Any:
    """Each backend that isolates."""
    return make(request.param)
