"""Choose a sandbox, by name or the strongest that works, never one that does not isolate.

The sandboxes of a process are shared: a container pool serves all environments.
"""

from __future__ import annotations

import os
from threading import Lock

from lopd_gym.errors import InfrastructureError
from lopd_gym.registry import SANDBOXES, load, names
from lopd_gym.sandbox import Isolation, Probe, Sandbox

STRONGEST = "auto"
"""The name that stands for the strongest backend that works here."""

_opened: dict[tuple[int, str], Sandbox] = {}
_lock = Lock()


def open_sandbox(name: str = STRONGEST) -> Sandbox:
    """Return the process's sandbox of this name, made when it is first asked for.

    `STRONGEST` never means one that does not isolate, and a name never means another backend.

    Raises:
        UsageError: Nothing has this name.
        InfrastructureError: It does not work here, or nothing that isolates does.
    """
    with _lock:
        key = (os.getpid(), name)  # a forked process shares no connections and no threads
        if key not in _opened:
            chosen = strongest() if name == STRONGEST else name
            _opened[key] = _opened.get((os.getpid(), chosen)) or load(SANDBOXES, chosen)()
            _opened[os.getpid(), chosen] = _opened[key]
        return _opened[key]


def probe_all() -> dict[str, Probe]:
    """Try every registered backend."""
    return {name: load(SANDBOXES, name).probe() for name in names(SANDBOXES)}


def strongest() -> str:
    """Return the name of the backend with the highest level that works here.

    Raises:
        InfrastructureError: None isolates; the message says what each one lacks.
    """
    found = probe_all()
    levels = {name: probe.isolation or Isolation.NONE for name, probe in found.items()}
    best = max(levels, key=lambda name: levels[name], default="")
    if not best or levels[best] == Isolation.NONE:
        lacking = [f"{name}: {p.detail}" for name, p in found.items() if p.isolation is None]
        raise InfrastructureError(
            f"No sandbox that isolates works here ({'; '.join(lacking) or 'none is registered'}). "
            "Install or mend one (lopd-gym sandbox doctor), or run without isolation by naming it: "
            "--set env.sandbox=process."
        )
    return best
