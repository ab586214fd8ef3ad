"""`Scene`: the apps of one agent episode, in their initial state; nothing is shared or random."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lopd_envs.acebench.scenes.base import App, Device
from lopd_envs.acebench.scenes.food import FoodPlatform
from lopd_envs.acebench.scenes.phone import Messages, Reminders
from lopd_envs.acebench.scenes.travel import Travel
from lopd_gym.errors import DataError

CLASSES = ("BaseApi", "MessageApi", "ReminderApi", "FoodPlatform", "Travel")
"""The apps by the names that the benchmark's data gives them."""


class UnknownTool(Exception):
    """No app of the scene has a tool of this name."""


class Scene:
    """The apps that a task involves.

    Args:
        language: ``en`` or ``zh``.
        involved: Names of the apps, of `CLASSES`.
        config: The task's ``initial_config``. Only its ``BaseApi`` part has an effect, upstream
            too: whatever it says of other apps is overwritten there.

    Raises:
        DataError: An app that does not exist.
    """

    def __init__(self, language: str, involved: Sequence[str], config: Mapping[str, Any]) -> None:
        world: dict[str, Any] = json.loads(_world(language))
        device = Device(language, config.get("BaseApi", {}))
        self._phone = device if set(involved) & set(CLASSES[:4]) else None
        makers: dict[str, Callable[[], App]] = {
            "BaseApi": lambda: device,
            "MessageApi": lambda: Messages(language, world, device),
            "ReminderApi": lambda: Reminders(language, world, device),
            "FoodPlatform": lambda: FoodPlatform(language, world, device),
            "Travel": lambda: Travel(language, world),
        }
        unknown = [name for name in involved if name not in makers]
        if unknown:
            raise DataError(f"Expected apps of {', '.join(CLASSES)}, found '{unknown[0]}'.")
        self._apps: dict[str, App] = {name: makers[name]() for name in involved}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool and return its answer; whatever it raises on unfit arguments is raised.

        Raises:
            UnknownTool: No app has it.
        """
        owners = [*self._apps.values(), *([self._phone] if self._phone else [])]
        for app in owners:
            tool = app.tool(name)
            if tool is not None:
                return tool(**arguments)
        raise UnknownTool(name)

    def state(self) -> list[dict[str, dict[str, Any]]]:
        """Return what is compared of every app, as plain JSON values, keys as strings."""
        plain: list[dict[str, dict[str, Any]]] = json.loads(
            json.dumps([{name: app.scored()} for name, app in self._apps.items()])
        )
        return plain


@lru_cache(maxsize=2)
def _world(language: str) -> str:
    """Return a language's world as JSON: read anew for each scene, it is a copy of its own."""
    worlds = json.loads(files(__package__).joinpath("worlds.json").read_text("utf-8"))
    return json.dumps(worlds[language])
