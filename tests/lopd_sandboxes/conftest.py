"""Fixtures: each backend that works here. Name in LOPD_GYM_TEST_SANDBOXES those that must."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

from lopd_gym.registry import SANDBOXES, load
from lopd_gym.sandbox import Sandbox

ISOLATING = ("bubblewrap", "docker")
REQUIRED = os.environ.get("LOPD_GYM_TEST_SANDBOXES", "").split(",")


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
