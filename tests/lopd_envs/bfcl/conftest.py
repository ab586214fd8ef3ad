"""The installed wheel, or a skip that says how to get it."""

from __future__ import annotations

import importlib.util

import pytest
from lopd_envs.bfcl.wheel import INSTALL, PACKAGE, Wheel, load_wheel

from tests.lopd_envs.bfcl.upstream import Upstream


@pytest.fixture(scope="session")
def wheel() -> Wheel:
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip(f"BFCL's wheel is not installed: {INSTALL}")
    return load_wheel()


@pytest.fixture(scope="session")
def upstream(wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    return Upstream(tmp_path_factory.mktemp("bfcl_project"))
