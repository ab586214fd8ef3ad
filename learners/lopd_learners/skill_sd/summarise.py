"""Summarisers: from the finished episodes of one task to a skill.

``rules`` reads the traces and needs no model. ``policy`` lets the base model write the skill, and
falls back to the rules where what it writes is no skill. ``openai:MODEL`` asks a model behind an
endpoint in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial

from lopd_gym.bank.experience import storable
from lopd_gym.bank.trace import write_trace
from lopd_gym.endpoint import PREFIX, ContextFull, Endpoint
from lopd_gym.episode import Episode, Sampling
from lopd_gym.errors import UsageError, unknown_name
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


def make_summariser(name: str, base_url: str | None, backbone: Backbone) -> Summariser:
    """Return a summariser by its name.

    Args:
        name: ``rules``, ``policy``, or ``openai:MODEL``.
        base_url: The endpoint's address, where a model behind one is named.
        backbone: Whose base model writes for ``policy``.

    Raises:
        UsageError: There is none of this name, or it has no address.
    """
    if name == "rules":
        return by_rules
    if name == "policy":
        return Written(partial(answer_of_base, backbone))
    if not name.startswith(PREFIX):
        known = ("rules", "policy", f"{PREFIX}MODEL")
        raise unknown_name("summariser of skill-sd", name, known)
    if base_url is None:
        raise UsageError(f"The summariser '{name}' needs its endpoint: set summariser_url.")
    return Written(partial(answer_of_endpoint, Endpoint(name[len(PREFIX) :], base_url)))


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


class Written:
    """Lets a language model write the skill; ``ask`` takes a question and returns its answer."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        self._ask = ask

    def __call__(self, episodes: Sequence[Episode]) -> Skill | None:
        """Return the skill that the model writes, or that of the rules."""
        fallback = by_rules(episodes)
        if fallback is None:
            return None
        attempts = "\n\n".join(
            f"Attempt (score {e.outcome.score}):\n{write_trace(e.actions)}" for e in episodes
        )
        written = self._ask(f"{_REQUEST}\n\nTask:\n{fallback.instruction}\n\n{attempts}")
        return parse_skill(written, fallback.instruction) or fallback


def answer_of_base(backbone: Backbone, question: str) -> str:
    """Ask the base model, greedily."""
    prefix, rest = backbone.chat.opening([Message("user", question)], ())
    ids = backbone.encode(prefix) + backbone.encode(rest)
    engine = MultiTurnEngine(backbone, weights="base", sampling=Sampling(temperature=0))
    engine.open(Prompt(ids, len(ids), None, 0), seed=0, max_new_tokens=_MAX_NEW_TOKENS)
    while True:
        for completion in engine.step():
            return backbone.decode(completion.ids)


def answer_of_endpoint(endpoint: Endpoint, question: str) -> str:
    """Ask a model behind an endpoint.

    Raises:
        InfrastructureError: It does not answer; the run stops, and can be resumed.
    """
    asked = [{"role": "user", "content": question}]
    try:
        reply = endpoint.complete(asked, temperature=0, max_tokens=_MAX_NEW_TOKENS)
    except ContextFull:
        return ""
    return str(reply.message.get("content") or "")


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
