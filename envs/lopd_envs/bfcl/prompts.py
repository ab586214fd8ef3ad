"""What the policy is told: the opening of an episode and of each turn, in either protocol.

``fc`` offers the functions as tools. ``prompting`` describes them in upstream's system prompt and
expects ``[f(a=1), g()]`` as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from lopd_envs.bfcl.corpus import Document, Entry
from lopd_envs.bfcl.documents import offered, tool_specs
from lopd_envs.bfcl.wheel import Wheel
from lopd_gym.messages import Message, Observation

Protocol = Literal["fc", "prompting"]
PROTOCOLS: tuple[Protocol, ...] = ("fc", "prompting")


def opening(wheel: Wheel, entry: Entry, protocol: Protocol) -> Observation:
    """Return the first turn's messages, under a system prompt where the protocol has one."""
    messages = tuple(_message(m) for m in entry.turns[0])
    if protocol == "fc":
        return messages
    system = system_prompt(wheel, offered(entry))
    if messages[0].role == "system":
        return (Message("system", f"{system}\n\n{messages[0].content}"), *messages[1:])
    return (Message("system", system), *messages)


def next_turn(wheel: Wheel, entry: Entry, turn: int, protocol: Protocol) -> Observation:
    """Return the messages that open a later turn.

    Functions that become available are described in the user's message. A conversation's tools
    are part of what was sampled from, so upstream's way in function calling (the tools of the
    prompt are exchanged) would change the past.
    """
    added = entry.added.get(turn)
    if added is None:
        return tuple(_message(m) for m in entry.turns[turn])
    if protocol == "prompting":
        functions = str(list(added))
    else:
        specs = tool_specs(wheel, added)
        functions = "\n".join(json.dumps(spec.as_openai()) for spec in specs)
    template = wheel.prompts.DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING
    return (Message("user", template.format(functions=functions)),)


def system_prompt(wheel: Wheel, documents: Sequence[Document]) -> str:
    """Fill in upstream's default system prompt."""
    texts = wheel.prompts
    if not hasattr(texts, "PROMPT_STYLE_TEMPLATES"):  # 2025.8: one plain template
        return str(texts.DEFAULT_SYSTEM_PROMPT.format(functions=list(documents)))
    style = texts.PROMPT_STYLE_TEMPLATES["classic"]
    tool_call_format = style["tool_call_no_tag"].format(
        output_format=texts.OUTPUT_FORMAT_MAPPING["python"],
        param_types=texts.PARAM_TYPE_MAPPING["python"],
    )
    tools = style["available_tools"].format(
        format="json", functions=json.dumps(list(documents), indent=4)
    )
    filled: str = texts.PROMPT_TEMPLATE_MAPPING["plaintext"].format(
        persona=style["persona"],
        task=style["task"],
        tool_call_format=tool_call_format,
        multiturn_behavior=style["multiturn_behavior"],
        available_tools=tools,
    )
    return filled


def _message(plain: Any) -> Message:
    return Message(plain["role"], plain["content"])
