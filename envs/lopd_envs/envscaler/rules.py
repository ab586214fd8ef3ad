"""The two published protocols of an EnvScaler episode."""

from __future__ import annotations

from lopd_gym.env import EpisodeRules
from lopd_gym.errors import unknown_name

_UNCLIPPED = 1_000_000

UPSTREAM = EpisodeRules(
    max_turns=30,
    max_parse_errors=0,
    max_observation_chars=_UNCLIPPED,
    on_exception="terminate",
    at_limit="zero",
    several_calls="first",
    final_text="any",
)
"""EnvScaler's own evaluation: a tool that raises ends the episode with 0, and so does the limit."""

LOPD = UPSTREAM.model_copy(update={"max_turns": 29, "at_limit": "score"})
"""LOPD's evaluation: its 30th step is a forced submission, which leaves the policy 29 turns."""

PRESETS = {"upstream": UPSTREAM, "lopd": LOPD}


def preset_rules(name: str) -> EpisodeRules:
    """Return the rules of a preset; raises `UsageError` for an unknown one."""
    if name not in PRESETS:
        raise unknown_name("preset of EnvScaler's rules", name, PRESETS)
    return PRESETS[name]
