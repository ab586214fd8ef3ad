"""The ``evalscope`` package's port of ACEBench, loaded file by file where it is installed.

Importing ``evalscope`` itself would need its many dependencies; its ACEBench files need none.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

MODULES = {
    "BaseApi": "base_api",
    "MessageApi": "message",
    "ReminderApi": "reminder",
    "FoodPlatform": "food_services",
    "Travel": "travel",
}


def port(name: str, folder: str = "benchmarks/acebench") -> Any:
    """Import one file of the port; skips the test where the package is absent."""
    spec = importlib.util.find_spec("evalscope")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no evalscope: pip install --no-deps evalscope==1.14.1")
    package = "_port_" + folder.replace("/", "_")
    if package not in sys.modules:
        module = types.ModuleType(package)
        module.__path__ = [str(Path(spec.submodule_search_locations[0]) / folder)]
        sys.modules[package] = module
    return importlib.import_module(f"{package}.{name}")


class PortScene:
    """Upstream's own classes, configured and called as upstream does."""

    def __init__(self, language: str, involved: list[str], config: dict[str, Any]) -> None:
        self.apps = {}
        for name in involved:
            app = getattr(port(MODULES[name], f"third_party/acebench/{language}"), name)()
            for part in (name, "BaseApi"):
                app._load_scenario(deepcopy(config.get(part, {})))
            self.apps[name] = app

    def call(self, name: str, arguments: dict[str, Any]) -> None:
        for app in self.apps.values():
            if not hasattr(app, name):
                continue
            try:
                getattr(app, name)(**deepcopy(arguments))
            except Exception:
                return

    def state(self, scored: dict[str, tuple[str, ...]]) -> Any:
        plain = [
            {name: {a: getattr(app, a) for a in scored[name]}} for name, app in self.apps.items()
        ]
        return json.loads(json.dumps(plain))
