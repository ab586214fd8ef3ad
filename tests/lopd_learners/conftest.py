"""One bank for all tests of learners; nothing here writes to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lopd_gym.bank import Bank
from tests.lopd_learners.lopd.setting import make_bank


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with make_bank(tmp_path_factory.mktemp("bank")) as bank:
        yield bank
