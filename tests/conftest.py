"""Shared fixtures. Real benchmark data is used where it is present; it is never committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real benchmark data, from LOPD_GYM_TEST_DATA."""
    folder = Path(os.environ.get("LOPD_GYM_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no benchmark data at {folder}: set LOPD_GYM_TEST_DATA")
    return folder
