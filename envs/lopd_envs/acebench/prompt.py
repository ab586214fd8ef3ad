"""How an ACEBench task opens: what the policy is told before its first turn.

The same demands as upstream's prompts, in our own words (`prompts_en.md`, `prompts_zh.md`), and as
a conversation: upstream asks with the whole transcript as one text each time. In the protocol
``text`` the functions are listed in the system message and called in ACEBench's notation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from lopd_envs.acebench.corpus import MULTI_STEP, MULTI_TURN, Row
from lopd_gym.messages import Message

FINISH = "finish conversation"
"""What the agent, or the simulated user, writes to end an agent episode."""

UNSPOKEN = "(The simulated user opens the conversation.)"
"""Stands for the first user message of a task whose user is simulated."""

_STATES = {
    "en": {False: "the user", True: "the user or the profile"},
    "zh": {False: "用户", True: "用户或其资料"},
}
"""Who states the values of parameters: the user alone, or the user's profile as well."""


@lru_cache(maxsize=2)
def prompts(language: str) -> Mapping[str, str]:
    """Return the texts of a language by name; ``{...}`` in them are to be filled in."""
    text = files(__package__).joinpath(f"prompts_{language}.md").read_text("utf-8")
    _, *parts = re.split(r"^# (\w+)\n\n", text, flags=re.MULTILINE)
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def opening(row: Row, language: str, protocol: str) -> tuple[Message, ...]:
    """Return the system message and the first user message of a task."""
    texts = prompts(language)
    parts = [_role(row, language)]
    if row.category == MULTI_TURN:
        parts.append(texts["airline" if "Travel" in row.fields["involved_classes"] else "phone"])
    if row.fields.get("time"):
        parts.append(str(row.fields["time"]))
    if row.fields.get("profile"):
        parts.append(texts["profile"].format(profile=row.fields["profile"]))
    if protocol == "text":
        parts.append(texts["notation"].format(functions=row.fields["function"]))
    question = UNSPOKEN if row.category == MULTI_TURN else row.fields["question"]
    return Message("system", "\n\n".join(parts)), Message("user", question)


def user_role(row: Row, language: str) -> str:
    """Return what the model that plays a task's user is told."""
    texts = prompts(language)
    role = texts["user"].format(instruction=row.fields["question"], finish=FINISH)
    scene = "airline" if "Travel" in row.fields["involved_classes"] else "phone"
    return f"{role}\n{texts[f'user_{scene}']}"


def _role(row: Row, language: str) -> str:
    texts = prompts(language)
    if row.kind == "agent":
        name = "steps" if row.category == MULTI_STEP else "turns"
        return texts[name].format(finish=FINISH)
    if row.kind == "special":
        return texts["special"]
    return texts["normal"].format(source=_STATES[language]["profile" in row.fields])
