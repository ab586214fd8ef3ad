"""Running candidates without overloading the machine, and once more where it broke."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from lopd_gym.errors import InfrastructureError

T = TypeVar("T")

SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""One running candidate for each core: more would only wait, and be taken for slow."""

_ATTEMPTS = 3


def attempt(act: Callable[[], T]) -> T:
    """Do something when a core is free; trouble of the infrastructure is tried again.

    Raises:
        InfrastructureError: It broke each time.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            with SLOTS:
                return act()
        except InfrastructureError:
            continue
    with SLOTS:
        return act()
