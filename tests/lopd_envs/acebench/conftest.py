from __future__ import annotations

from pathlib import Path

import pytest
from lopd_envs.acebench.corpus import LANGUAGES, Corpus, load_corpus


@pytest.fixture(scope="session")
def acebench_folder(data_folder: Path) -> Path:
    folder = data_folder / "acebench"
    if not folder.is_dir():
        pytest.skip(f"no ACEBench data at {folder}")
    return folder


@pytest.fixture(scope="session", params=LANGUAGES)
def corpus(request: pytest.FixtureRequest, acebench_folder: Path) -> Corpus:
    return load_corpus(acebench_folder, request.param)
