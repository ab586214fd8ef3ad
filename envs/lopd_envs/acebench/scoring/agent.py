"""Scores of an agent episode: its end state against the expected one, and its milestones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

State = Mapping[str, Mapping[str, Any]]
"""One app's compared attributes, under the app's name."""

_TYPOS = {"Reminderpi": "ReminderApi", "ReminderAPI": "ReminderApi", "BaseAPI": "BaseApi"}
"""Misspelt app names in the answers; the official comparison skips such an app."""


def official_faults(states: Sequence[State], truth: Sequence[State]) -> list[str]:
    """Compare end states as upstream does, its leniencies included; no fault is a pass.

    An expected app that the episode does not have under exactly this name is skipped, and of an
    attribute that is a mapping only the expected keys are looked at. An episode that executed
    nothing has no states, and fails on their number.
    """
    if len(states) != len(truth):
        return [f"expected the state of {len(truth)} apps, found {len(states)}"]
    faults = []
    for expected in truth:
        found = next((state for state in states if state.keys() == expected.keys()), None)
        if found is not None:
            name = next(iter(expected))
            faults += _official_app(name, found[name], expected[name])
    return faults


def _official_app(app: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    faults = []
    for name, value in found.items():
        if name not in expected:
            faults.append(f"{app}.{name} is not expected")
        elif isinstance(expected[name], dict):
            wrong = [k for k, v in expected[name].items() if k not in value or value[k] != v]
            faults += [f"{app}.{name}.{key} differs" for key in wrong]
        elif expected[name] != value:
            faults.append(f"{app}.{name} differs")
    return faults


def repaired(states: Sequence[State]) -> dict[str, Mapping[str, Any]]:
    """Return the apps of a state in one mapping, with their names spelt as the apps are."""
    return {_TYPOS.get(name, name): value for state in states for name, value in state.items()}


def strict_faults(states: Sequence[State], truth: Sequence[State]) -> list[str]:
    """Compare end states completely: every app, every attribute, every key on both sides."""
    found, expected = repaired(states), repaired(truth)
    faults = [f"{name} is missing" for name in expected if name not in found]
    faults += [f"{name} is not expected" for name in found if name not in expected]
    for app in expected.keys() & found.keys():
        names = expected[app].keys() | found[app].keys()
        faults += [f"{app}.{n} differs" for n in names if expected[app].get(n) != found[app].get(n)]
    return sorted(faults)


def process_score(trace: Sequence[str], milestones: Any) -> float:
    """Return the share of milestones that occur in the trace, in order, as raw strings.

    A milestone that is not found uses up the rest of the trace. Where there are alternative lists
    of milestones, the best one counts; where there is none, the score is 1.
    """
    several = bool(milestones) and all(isinstance(way, list) for way in milestones)
    return max(_share(trace, way) for way in (milestones if several else [milestones]))


def _share(trace: Sequence[str], milestones: Sequence[str]) -> float:
    if not milestones:
        return 1.0
    remaining = iter(trace)
    reached = 0
    for milestone in milestones:
        reached += any(entry.strip() == milestone.strip() for entry in remaining)
    return round(reached / len(milestones), 3)
