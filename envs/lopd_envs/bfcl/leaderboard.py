"""How the leaderboard adds categories up, as published with each release.

A group is a mean over its members, and has no value unless every member was played in full:
upstream counts what is missing as zero, which says nothing about a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lopd_envs.bfcl.corpus import LIVE_AST, MULTI_TURN, NON_LIVE_AST
from lopd_gym.errors import UsageError


@dataclass(frozen=True, slots=True)
class Tally:
    """How many entries of a category passed, of how many."""

    passed: int
    tasks: int

    @property
    def accuracy(self) -> float:
        """The fraction that passed."""
        return self.passed / self.tasks


Value = float | None


def groups(prefix: str, tallies: Mapping[str, Tally]) -> dict[str, Value]:
    """Return the leaderboard's groups, in [0, 1] or None where a category is missing.

    Args:
        prefix: ``BFCL_v3`` or ``BFCL_v4``: the formulas differ.
        tallies: The categories that were played in full.

    Raises:
        UsageError: No formulas are known under this prefix.
    """
    if prefix == "BFCL_v3":
        return _v3(tallies)
    if prefix == "BFCL_v4":
        return _v4(tallies)
    raise UsageError(f"Expected the prefix BFCL_v3 or BFCL_v4, found '{prefix}'.")


def _v3(tallies: Mapping[str, Tally]) -> dict[str, Value]:
    value = {name: tally.accuracy for name, tally in tallies.items()}.get
    non_live = _mean([*_non_live_ast(tallies), value("irrelevance")])
    live = _weighted(tallies, (*LIVE_AST, "live_irrelevance", "live_relevance"))
    multi_turn = _mean([value(name) for name in MULTI_TURN])
    return {
        "non-live": non_live,
        "live": live,
        "multi-turn": multi_turn,
        "overall": _mean([non_live, live, multi_turn]),
    }


def _v4(tallies: Mapping[str, Tally]) -> dict[str, Value]:
    """Return V4's groups; its overall also weighs web search and memory, which are not here."""
    value = {name: tally.accuracy for name, tally in tallies.items()}.get
    return {
        "non-live AST": _mean(_non_live_ast(tallies)),
        "live AST": _weighted(tallies, LIVE_AST),
        "irrelevance": _mean([value("irrelevance"), value("live_irrelevance")]),
        "relevance (not counted)": value("live_relevance"),
        "multi-turn": _mean([value(name) for name in MULTI_TURN]),
        "overall": None,
    }


def _non_live_ast(tallies: Mapping[str, Tally]) -> list[Value]:
    """Return the four values of which the non-live mean is made: the three simple ones are one."""
    values = [tallies[name].accuracy if name in tallies else None for name in NON_LIVE_AST]
    return [_mean(values[:3]), *values[3:]]


def _mean(values: list[Value]) -> Value:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _weighted(tallies: Mapping[str, Tally], names: tuple[str, ...]) -> Value:
    """Return the share of all entries of these categories that passed."""
    if not all(name in tallies for name in names):
        return None
    return sum(tallies[n].passed for n in names) / sum(tallies[n].tasks for n in names)
