"""Each backend that isolates and works here, for what has to hold in all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lopd_sandboxes.conftest import ISOLATING, make


@pytest.fixture(scope="session", params=ISOLATING)
def isolating(request: pytest.FixtureRequest) -> Any:
    """Each backend that isolates."""
    return make(request.param)
