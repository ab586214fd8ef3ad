"""Summarisers: from the finished episodes of one task to a skill.

``rules`` reads the traces and needs no model. With ``policy`` the base model writes the skill, with
``endpoint`` a model that is served elsewhere; where what it writes is no skill, the rules do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

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

_MAX_NEW_TOKENS = 512

_REQUEST = (
    "Below are attempts at one task. Write a JSON object with three strings, `worked` (what went "
    "well), `mistakes` (what went wrong) and `workflow` (the recommended steps), and nothing else."
)


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


def by_model(answer: Callable[[str], str]) -> Summariser:
    """Return a summariser that asks a model, by a function from a question to its answer."""

    def summarise(episodes: Sequence[Episode]) -> Skill | None:
        fallback = by_rules(episodes)
        if fallback is None:
            return None
        attempts = "\n\n".join(
            f"Attempt (score {e.outcome.score}):\n{write_trace(e.actions)}" for e in episodes
        )
        written = answer(f"{_REQUEST}\n\nTask:\n{fallback.instruction}\n\n{attempts}")
        return parse_skill(written, fallback.instruction) or fallback

    return summarise


def ask_base(backbone: Backbone, question: str) -> str:
    """Return the base model's greedy answer to one user message."""
    prefix, rest = backbone.chat.opening([Message("user", question)], ())
    ids = backbone.encode(prefix) + backbone.encode(rest)
    engine = MultiTurnEngine(backbone, weights="base", sampling=Sampling(temperature=0))
    engine.open(Prompt(ids, len(ids), None, 0), seed=0, max_new_tokens=_MAX_NEW_TOKENS)
    while True:
        for completion in engine.step():
            return backbone.decode(completion.ids)


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
