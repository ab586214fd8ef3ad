"""Find environments, learners, sandboxes and data sets by name, through entry points.

The built-in ones register exactly as a third party's would; nothing here imports them before they
are asked for.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from lopd_gym.errors import LopdGymError, unknown_name

ENVS = "lopd_gym.envs"
LEARNERS = "lopd_gym.learners"
SANDBOXES = "lopd_gym.sandboxes"
DATASETS = "lopd_gym.datasets"

_KINDS = {ENVS: "environment", LEARNERS: "learner", SANDBOXES: "sandbox", DATASETS: "data set"}


def names(group: str) -> list[str]:
    """Return the registered names of a group, sorted."""
    return sorted({point.name for point in entry_points(group=group)})


def load(group: str, name: str) -> Any:
    """Import and return what is registered under a name.

    Raises:
        UsageError: Nothing has this name; the message gives the nearest one.
        LopdGymError: The registered object cannot be imported.
    """
    for point in entry_points(group=group):
        if point.name == name:
            try:
                return point.load()
            except (ImportError, AttributeError) as err:
                kind = _KINDS[group]
                raise LopdGymError(f"The {kind} '{name}' ({point.value}): {err}.") from err
    raise unknown_name(_KINDS[group], name, names(group))


def register_gymnasium() -> None:
    """Make every registered environment available as ``gymnasium.make("lopd_gym/<name>-v0")``.

    Importing `lopd_gym.env` does it. Gymnasium can import that itself, also in a new process:
    ``gymnasium.make("lopd_gym.env:lopd_gym/<name>-v0")``.
    """
    import gymnasium

    for point in entry_points(group=ENVS):
        gymnasium.register(f"lopd_gym/{point.name}-v0", entry_point=point.value)
