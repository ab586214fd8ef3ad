"""The kinds of trouble a caller can act on.

Messages name what was expected, what was found and what to do, in one sentence.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LopdGymError(Exception):
    """Base of every error this library raises on purpose. The command line exits with 1."""


class UsageError(LopdGymError):
    """A wrong name, option or combination of options. The command line exits with 2."""


class DataError(LopdGymError):
    """A data file is missing, truncated, altered or of an unexpected shape."""


class InfrastructureError(LopdGymError):
    """The machinery around an episode broke (worker, sandbox, network), not the policy.

    An episode that meets it is marked failed: it has no score and enters no loss and no average.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Build the error for a name that is not registered, with the nearest known name.

    Args:
        kind: What the name stands for, e.g. ``"environment"``.
        name: The name that was given.
        known: All valid names.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(names) or 'none'}."
    return UsageError(f"No {kind} is called '{name}'; {hint}")
