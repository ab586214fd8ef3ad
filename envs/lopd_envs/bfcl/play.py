"""One play of an entry: what was called so far, and how it is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lopd_envs.bfcl.calls import Call
from lopd_envs.bfcl.corpus import Entry
from lopd_envs.bfcl.documents import offered, tool_specs
from lopd_envs.bfcl.multi_turn import checks, official_verdict
from lopd_envs.bfcl.prompts import Protocol
from lopd_envs.bfcl.single_turn import official_check
from lopd_envs.bfcl.wheel import Wheel
from lopd_envs.bfcl.world import World
from lopd_gym.messages import ToolSpec
from lopd_gym.tasks import Check
from lopd_gym.tools import ToolResult


class Question:
    """A single-turn entry: one reply, compared with the answer. Nothing is carried out.

    ``calls`` holds the reply: its calls, or None where there is none that can be read.
    """

    def __init__(self, wheel: Wheel, entry: Entry, protocol: Protocol) -> None:
        self.entry = entry
        self.calls: Sequence[Call] | None = None
        self._wheel = wheel
        self._protocol = protocol

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the functions, where the protocol offers them as tools."""
        documents = offered(self.entry) if self._protocol == "fc" else ()
        return tool_specs(self._wheel, documents)

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Refuse: these functions exist on paper only."""
        return ToolResult(f"{name} cannot be called", refused=True)

    def checks(self) -> tuple[Check, ...]:
        """Return the official check."""
        dotted = self._protocol == "prompting"
        return (official_check(self._wheel, self.entry, self.calls, dotted=dotted),)


class Conversation:
    """A multi-turn entry: simulated APIs, and a user who says one thing after the other."""

    def __init__(self, wheel: Wheel, entry: Entry, protocol: Protocol) -> None:
        self.entry = entry
        self.turn = 0
        self._wheel = wheel
        self._protocol = protocol
        self._world = World(wheel, entry)
        self._steps: list[list[Call]] = [[]]
        self._ended: list[list[list[Call]]] = []

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the functions offered so far, where the protocol offers them as tools."""
        if self._protocol == "prompting":
            return ()
        added = [d for turn, new in self.entry.added.items() if turn <= self.turn for d in new]
        return tool_specs(self._wheel, [*offered(self.entry), *added])

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Carry out a call; functions that are not yet offered work, as upstream."""
        call = Call(name, arguments)
        self._steps[-1].append(call)
        return self._world.call(call)

    def end_step(self) -> None:
        """Note that the calls of one reply are done."""
        self._steps.append([])

    def end_turn(self) -> None:
        """Note that the turn is over."""
        self._ended.append(self._steps[:-1])
        self._steps = [[]]
        self.turn += 1

    @property
    def over(self) -> bool:
        """Whether the user has nothing more to say."""
        return self.turn == len(self.entry.turns)

    @property
    def over_limit(self) -> bool:
        """Whether the turn took more steps than upstream's runner allows."""
        limit: int = self._wheel.prompts.MAXIMUM_STEP_LIMIT
        return len(self._steps) - 1 > limit

    def checks(self) -> tuple[Check, ...]:
        """Return the official check on the turns that ended, and the others."""
        verdict = official_verdict(self._wheel, self.entry, self._ended)
        return checks(self._wheel, self.entry, self._ended, verdict)
