"""The functions of a task: `SceneTools` plays an agent's, `OfferedTools` are only to be named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from lopd_envs.acebench.corpus import Row
from lopd_envs.acebench.notation import refusal
from lopd_envs.acebench.scenes.scene import Scene, UnknownTool
from lopd_envs.acebench.schema import tool_spec
from lopd_envs.acebench.scoring.agent import State
from lopd_gym.messages import ToolSpec
from lopd_gym.tools import ToolResult, compact_json, error_text


@lru_cache(maxsize=4_096)
def _specs(row: Row) -> tuple[ToolSpec, ...]:
    return tuple(tool_spec(document) for document in row.fields["function"])


class OfferedTools:
    """The functions of a task that is one reply: what matters is which calls that reply makes."""

    def __init__(self, row: Row) -> None:
        self._specs = _specs(row)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the functions in the order of the data."""
        return self._specs

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Execute nothing: there is no system behind these functions."""
        return ToolResult("")


class SceneTools:
    """The functions that a task offers; a `lopd_gym.tools.Toolset`.

    Some tasks offer functions of apps that they do not involve: calling those is an error, as it
    is upstream.
    """

    def __init__(self, row: Row, language: str) -> None:
        fields = row.fields
        self._specs = _specs(row)
        self._scene = Scene(language, fields["involved_classes"], fields["initial_config"])
        self._executed = False

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the functions in the order of the data."""
        return self._specs

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Execute one call on the scene."""
        self._executed = True
        reason = refusal(arguments)
        if reason is not None:
            return ToolResult(error_text(reason), refused=True)
        try:
            return ToolResult(compact_json(self._scene.call(name, arguments)))
        except UnknownTool:
            return ToolResult(error_text(f"function {name!r} is not available"), refused=True)
        except Exception as err:  # arguments of the wrong kind are the policy's fault
            return ToolResult(error_text(f"{type(err).__name__}: {err}"), raised=repr(err))

    def states(self) -> Sequence[State]:
        """Return the end state; of an episode that called nothing there is none, as upstream."""
        return self._scene.state() if self._executed else ()
