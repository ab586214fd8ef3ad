"""House rules: binary habits of a place that decide success and are written nowhere.

A rule is a pair of options, and a `Habit` is one of the two. The task text and the tool list never
say which one holds; a tool answers a broken habit with an error that names it, and the calls of a
successful episode show it. That is what experience can teach in these worlds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LogEntry = tuple[str, Mapping[str, Any]]
"""A call that was carried out on a record: tool name, and its arguments other than the id."""


@dataclass(frozen=True, slots=True)
class Habit:
    """One option of a house rule.

    Attributes:
        words: The habit as people say it; error messages and check names use it.
        before: Steps that must come before the change.
        after: Steps that must follow the change.
        never: Steps that must not be taken.
        argument: A parameter name and the value that it must always have.
    """

    words: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    argument: tuple[str, str] | None = None

    def broken_by(self, entry: LogEntry, earlier: set[str], is_change: bool, changed: bool) -> bool:
        """Whether a call breaks the habit at this moment.

        Args:
            entry: The call.
            earlier: The tools that were already used on the same record.
            is_change: Whether the call is the change that the house rules are about.
            changed: Whether that change has already happened.
        """
        tool, arguments = entry
        if tool in self.never or (tool in self.after and not changed):
            return True
        if is_change and not earlier.issuperset(self.before):
            return True
        if self.argument is None:
            return False
        name, value = self.argument
        return name in arguments and arguments[name] != value

    def complete(self, log: Sequence[LogEntry]) -> bool:
        """Whether nothing that the habit asks for was left out."""
        used = {tool for tool, _ in log}
        if not used.issuperset(self.before + self.after):
            return False
        return self.argument is None or any(self.argument[0] in given for _, given in log)


HouseRule = tuple[Habit, Habit]
Options = tuple[int, int]
"""Which option (0 or 1) holds for each of a domain's two house rules."""


def extra_before(step: str) -> HouseRule:
    """An extra step: never taken (0), or taken before the change (1)."""
    return Habit(f"no {step}", never=(step,)), Habit(f"{step} before the change", before=(step,))


def extra_after(step: str) -> HouseRule:
    """An extra step: never taken (0), or taken after the change (1)."""
    return Habit(f"no {step}", never=(step,)), Habit(f"{step} after the change", after=(step,))


def order(step: str) -> HouseRule:
    """A step that is always taken: before the change (0) or after it (1)."""
    before = Habit(f"{step} before the change", before=(step,))
    return before, Habit(f"{step} after the change", after=(step,))


def either(first: str, second: str) -> HouseRule:
    """A step before the change: always ``first`` (0) or always ``second`` (1)."""
    return (
        Habit(f"{first} not {second}", before=(first,), never=(second,)),
        Habit(f"{second} not {first}", before=(second,), never=(first,)),
    )


def constant(parameter: str, first: str, second: str) -> HouseRule:
    """An argument that always has the same value: ``first`` (0) or ``second`` (1)."""
    return (
        Habit(f"{parameter} is {first}", argument=(parameter, first)),
        Habit(f"{parameter} is {second}", argument=(parameter, second)),
    )
