"""Windows of contest dates, and the problems whose stored tests are known to be at fault.

Scores are comparable only within the same window: models have seen what was published before
their training. A window holds its first day and not its last.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from lopd_envs.livecodebench.corpus import Corpus
from lopd_gym.errors import UsageError
from lopd_gym.tasks import TRAIN_SPLIT

Window = tuple[date, date]

_FIRST, _NEVER = date.min, date.max
_HELD_OUT = date(2024, 8, 1)

WINDOWS: dict[str, Window] = {
    TRAIN_SPLIT: (_FIRST, _HELD_OUT),
    "test": (_HELD_OUT, _NEVER),
    "v5": (date(2024, 8, 1), date(2025, 2, 1)),
    "v6": (date(2025, 2, 1), date(2025, 5, 1)),
    "all": (_FIRST, _NEVER),
}
"""The splits. ``v5`` (279 problems) and ``v6`` (131) are the windows that papers call by these
names, LOPD's among them: dates, not the releases v5 and v6. ``all`` is for models that were not
trained here."""

CUSTOM = "window"
"""The split of a window of the user's own."""

_SEVERAL_ANSWERS = {
    "abc311_c",
    "abc326_d",
    "abc327_b",
    "abc333_e",
    "abc343_a",
    "abc343_e",
    "abc362_c",
    "arc185_c",
    "find-the-peaks",
    "find-words-containing-character",
    "generate-binary-strings-without-adjacent-zeros",
}
_INTERACTIVE = {"abc337_e", "abc355_e"}
_BROKEN_TESTS = {
    "abc350_c",
    "arc189_a",
    "apply-operations-to-make-string-empty",
    "most-frequent-ids",
}
ERRATA = frozenset(_SEVERAL_ANSWERS | _INTERACTIVE | _BROKEN_TESTS)
"""Ids, or titles on LeetCode, of LiveCodeBench's errata: scores are given with and without them."""


def read_window(text: str) -> Window:
    """Read ``2024-08-01:2025-02-01``; raises `UsageError` for anything else."""
    first, _, end = text.partition(":")
    try:
        window = date.fromisoformat(first), date.fromisoformat(end)
    except ValueError:
        raise UsageError(
            f"Expected a window like 2024-08-01:2025-02-01 (without its last day), found '{text}'."
        ) from None
    if window[0] >= window[1]:
        raise UsageError(f"The window '{text}' ends before it begins.")
    return window


def split_ids(corpus: Corpus, custom: Window | None) -> Mapping[str, list[str]]:
    """Return the ids of the problems in each window, and in the user's own if there is one."""
    windows = WINDOWS if custom is None else {**WINDOWS, CUSTOM: custom}
    return {
        name: [p.id for p in corpus.problems.values() if first <= p.published < end]
        for name, (first, end) in windows.items()
    }
