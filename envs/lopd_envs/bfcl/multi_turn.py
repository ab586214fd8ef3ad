"""The official verdict on a multi-turn episode, and what should be known beside it.

The verdict is upstream's checker itself, run with our dispatcher in the place of upstream's
executor, which evaluates text and keeps instances from one call to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

from lopd_envs.bfcl.calls import Call
from lopd_envs.bfcl.corpus import Entry
from lopd_envs.bfcl.wheel import Wheel
from lopd_envs.bfcl.world import World
from lopd_gym.tasks import Check

Turns = Sequence[Sequence[Sequence[Call]]]
"""The calls that were made, by turn and step."""

OFFICIAL = "official"
"""The name of the check that alone makes the score."""

FORCED = "multi_turn:force_terminated"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What upstream's scorer says, and how many turns passed before the first that failed."""

    valid: bool
    error: str | None
    passed_turns: int


def official_verdict(wheel: Wheel, entry: Entry, turns: Turns) -> Verdict:
    """Replay the episode beside the expected calls and let upstream's checker compare them.

    Args:
        wheel: The loaded release.
        entry: The entry that was played.
        turns: The calls of each turn that ended; a turn may be missing only at the end.
    """
    truth = entry.truth[: len(turns)]
    replay = _Replay(wheel, entry)
    checker = _with_executor(wheel, replay.execute)
    found = checker(turns, truth, entry.raw, entry.category, "model")
    # Upstream does not look at an episode that was cut short; we say how far it was right.
    passed = len(truth) if found["valid"] else replay.turns_begun - 1
    if len(turns) != len(entry.truth):
        return Verdict(False, FORCED, passed)
    return Verdict(found["valid"], found.get("error_type"), passed)


def checks(wheel: Wheel, entry: Entry, turns: Turns, verdict: Verdict) -> tuple[Check, ...]:
    """Return the official check, one for each turn, and two that upstream does not make.

    Upstream overlooks a forced end in the last turn, and calls in a turn that asks for what cannot
    be done yet.
    """
    found = [Check(OFFICIAL, verdict.valid, verdict.error)]
    first_failed = verdict.passed_turns
    for number in range(len(entry.truth)):
        error = verdict.error if number == first_failed else "not reached"
        passed = number < first_failed
        found.append(Check(f"turn {number}", passed, None if passed else error))
    withheld = [calls for calls, truth in zip(turns, entry.truth, strict=False) if not truth]
    found.append(Check("no call where none was possible", not any(map(any, withheld))))
    limit = wheel.prompts.MAXIMUM_STEP_LIMIT
    found.append(Check("no turn over the step limit", all(len(steps) <= limit for steps in turns)))
    return tuple(found)


class _Replay:
    """Stands in for upstream's executor in one verdict: two worlds, dropped with it."""

    def __init__(self, wheel: Wheel, entry: Entry) -> None:
        self._model, self._truth = World(wheel, entry), World(wheel, entry)
        self.turns_begun = 0

    def execute(
        self, func_call_list: Sequence[Call], *, model_name: str, **_: Any
    ) -> tuple[list[str], dict[str, Any]]:
        """Carry out calls; the checker executes the truth once in each turn, under its own name."""
        of_truth = model_name.endswith("_ground_truth")
        self.turns_begun += of_truth
        world = self._truth if of_truth else self._model
        return [world.call(call).content for call in func_call_list], world.instances


def _with_executor(wheel: Wheel, execute: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return upstream's checker with another executor, leaving upstream's module as it is."""
    original = cast(FunctionType, wheel.multi_turn.multi_turn_checker)
    names = {**original.__globals__, "execute_multi_turn_func_call": execute}
    return FunctionType(original.__code__, names, original.__name__, original.__defaults__)
