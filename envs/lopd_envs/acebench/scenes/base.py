"""What the simulated apps have in common: an app's tools, its answers, and the part that is scored.

An app refuses with ``{"status": False, ...}`` and never raises on purpose; a call whose arguments
are of the wrong kind raises as Python does, and whoever dispatches it makes an observation of that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, ClassVar

Answer = dict[str, Any]


@lru_cache(maxsize=1)
def _words() -> Mapping[str, Mapping[str, str]]:
    """Return what the apps answer, by language: our own wording, which no score looks at."""
    words: Mapping[str, Mapping[str, str]] = json.loads(
        files(__package__).joinpath("words.json").read_text("utf-8")
    )
    return words


class App:
    """One simulated app: ``TOOLS`` may be called, ``SCORED`` is what end states are compared by."""

    TOOLS: ClassVar[tuple[str, ...]] = ()
    SCORED: ClassVar[tuple[str, ...]] = ()

    def __init__(self, language: str) -> None:
        self._words = _words()[language]

    def tool(self, name: str) -> Callable[..., Any] | None:
        """Return the tool of this name, or None."""
        return getattr(self, name) if name in self.TOOLS else None

    def scored(self) -> dict[str, Any]:
        """Return the attributes that the end state is compared by."""
        return {name: getattr(self, name) for name in self.SCORED}

    def say(self, key: str, **values: object) -> str:
        """Return a text in this scene's language."""
        return self._words[key].format(**values)

    def yes(self, key: str, **values: object) -> Answer:
        """Report success."""
        return {"status": True, "message": self.say(key, **values)}

    def no(self, key: str, **values: object) -> Answer:
        """Report a refusal."""
        return {"status": False, "message": self.say(key, **values)}


class Device(App):
    """The phone itself: its Wi-Fi and its lock, which the apps on it look at."""

    TOOLS = ("turn_on_wifi", "login_device")
    SCORED = ("wifi", "logged_in")

    def __init__(self, language: str, config: dict[str, Any]) -> None:
        super().__init__(language)
        self.wifi: bool = config.get("wifi", False)
        self.logged_in: bool = config.get("logged_in", True)

    def turn_on_wifi(self) -> Answer:
        """Turn the Wi-Fi on."""
        self.wifi = True
        return self.yes("wifi_on")

    def login_device(self) -> Answer:
        """Unlock the device."""
        self.logged_in = True
        return self.yes("device_on")
