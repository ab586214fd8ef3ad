"""The official verdict on a single-turn reply: upstream's syntax-tree checker, and abstention."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from lopd_envs.bfcl.calls import MAX_SIZE, Call, Unreadable, leaves
from lopd_envs.bfcl.corpus import RELEVANCE, Entry
from lopd_envs.bfcl.multi_turn import OFFICIAL
from lopd_envs.bfcl.wheel import DOTTED, Wheel
from lopd_gym.tasks import Check

UNDERSCORED = "underscored"
"""The model name that tells the checker that dots in function names were written as ``_``."""


def official_check(
    wheel: Wheel, entry: Entry, calls: Sequence[Call] | None, *, dotted: bool = False
) -> Check:
    """Return the official verdict.

    Args:
        wheel: The loaded release.
        entry: The entry that was answered.
        calls: What was called; None for a reply that could not be read.
        dotted: Whether function names kept their dots, as in the prompting protocol.
    """
    if entry.category in RELEVANCE:
        # A call that cannot be read counts as none: officially, broken calls are abstention.
        wanted = entry.category == "live_relevance"
        passed = bool(calls) == wanted
        return Check(OFFICIAL, passed, None if passed else f"a call was {_NOT[wanted]}expected")
    if calls is None:
        return Check(OFFICIAL, False, "ast_decoder:decoder_failed")
    try:
        for call in calls:
            deque(leaves(call.arguments, _MAX_SIZE[entry.language]), maxlen=0)
        found = wheel.single_turn.ast_checker(
            list(entry.functions),
            [{call.name: dict(call.arguments)} for call in calls],
            list(entry.answer),
            wheel.languages[entry.language],
            entry.category,
            DOTTED if dotted else UNDERSCORED,
        )
    except Unreadable as err:
        return Check(OFFICIAL, False, str(err))
    except Exception as err:  # upstream's checker does not expect every value that can be written
        return Check(OFFICIAL, False, f"the checker raised {type(err).__name__}: {err}")
    return Check(OFFICIAL, found["valid"], None if found["valid"] else found["error_type"])


_MAX_SIZE = {"python": MAX_SIZE, "java": 2_000, "javascript": 2_000}
"""Upstream reads source text with patterns whose time grows with the square of its length."""

_NOT = {True: "", False: "not "}
