"""Summarisers: from the finished episodes of one task to a skill.

``rules`` reads the traces and needs no model. ``policy`` lets the base model write the skill, and
falls back to the rules where what it writes is no skill.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal

from lopd_gym.bank.experience import storable
from lopd_gym.bank.trace import write_trace
from lopd_gym.episode import Episode, Sampling
from lopd_gym.messages import Message
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Prompt
from lopd_gym.policy.engine import MultiTurnEngine
from lopd_learners.skill_sd.skills import Skill

Summariser = Callable[[Sequence[Episode]], Skill | None]
"""Takes all episodes of one task in one step; None where they teach nothing."""

_REQUEST = (
    "Below are attempts at one task. Write a JSON object with three strings, `worked` (what went "
    "well), `mistakes` (what went wrong) and `workflow` (the recommended steps), and nothing else."
)


def make_summariser(kind: Literal["rules", "policy"], backbone: Backbone) -> Summariser:
    """Return the summariser of a name."""
    return by_rules if kind == "rules" else ByPolicy(backbone)


def by_rules(episodes: Sequence[Episode]) -> Skill | None:
    """Contrast the best episode with those that failed; None where none succeeded."""
    solved = [e for e in episodes if e.outcome.success and e.actions]
    if not solved:
        return None
    best = min(solved, key=lambda e: len(e.actions))
    broken = {c.name for e in episodes for c in e.outcome.checks if not c.passed}
    done = ", ".join(dict.fromkeys(name for name, _, _ in best.actions))
    return Skill(
        worked=f"calling {done}",
        mistakes="; ".join(sorted(broken)) or "none seen",
        workflow=write_trace(best.actions),
        instruction=best.instruction,
    )


class ByPolicy:
    """Asks the base model for a skill."""

    def __init__(self, backbone: Backbone, max_new_tokens: int = 512) -> None:
        self._backbone, self._max_new = backbone, max_new_tokens

    def __call__(self, episodes: Sequence[Episode]) -> Skill | None:
        """Return the skill that the model writes, or that of the rules."""
        fallback = by_rules(episodes)
        if fallback is None:
            return None
        attempts = "\n\n".join(
            f"Attempt (score {e.outcome.score}):\n{write_trace(e.actions)}" for e in episodes
        )
        written = self._answer(f"{_REQUEST}\n\nTask:\n{fallback.instruction}\n\n{attempts}")
        return parse_skill(written, fallback.instruction) or fallback

    def _answer(self, question: str) -> str:
        prefix, rest = self._backbone.chat.opening([Message("user", question)], ())
        ids = self._backbone.encode(prefix) + self._backbone.encode(rest)
        engine = MultiTurnEngine(self._backbone, weights="base", sampling=Sampling(temperature=0))
        engine.open(Prompt(ids, len(ids), None, 0), seed=0, max_new_tokens=self._max_new)
        while True:
            for completion in engine.step():
                return self._backbone.decode(completion.ids)


def parse_skill(text: str, instruction: str) -> Skill | None:
    """Read a skill from a model's answer; None where there is none in it."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1])
        parts = {name: found[name] for name in ("worked", "mistakes", "workflow")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not all(isinstance(value, str) for value in parts.values()):
        return None
    return Skill(**{n: storable(v) for n, v in parts.items()}, instruction=instruction)
