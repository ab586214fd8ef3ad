"""Every word that the starter suite can show or ask for, for building a tokenizer."""

from __future__ import annotations

import re

from lopd_envs.envscaler.starter.domains import DOMAINS
from lopd_envs.envscaler.starter.play import FINAL_TEXT
from lopd_envs.envscaler.starter.words import NAMES
from lopd_envs.envscaler.starter.world import World
from lopd_gym.tools import compact_json

_WORD = re.compile(r"[A-Za-z][A-Za-z_]*")
_ANSWERS = (
    "ok true false id status error flagged house rule not found unknown must be tool argument"
)


def vocabulary() -> list[str]:
    """Return all words, sorted: tool and parameter names, values, names, things, text words.

    Numbers, single letters of ids and punctuation are not words.
    """
    texts = [*NAMES, FINAL_TEXT, _ANSWERS, "the of for"]
    for world in DOMAINS.values():
        texts += _texts(world)
    words = {word for text in texts for word in _WORD.findall(text)}
    return sorted(words - {"what", "number"})


def _texts(world: type[World]) -> list[str]:
    texts = [world.place, world.noun, world.person, world.thing, *world.things, *world.fields]
    for kind in world.goals:
        texts += [*kind.texts, *kind.cases]
        texts += [compact_json(case.result) for case in kind.cases.values()]
    texts += [habit.words for rule in world.house_rules for habit in rule]
    for spec in world.specs():
        texts += [spec.name, spec.description, *spec.parameters["properties"]]
        texts += [compact_json(p.get("enum", [])) for p in spec.parameters["properties"].values()]
    return texts
