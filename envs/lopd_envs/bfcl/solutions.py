"""Replies that play the benchmark's own answers: the ceiling of every score.

Upstream's answers list allowed values, for Java and JavaScript without saying how the values are
written in those languages. Where several ways of writing an answer are possible, the first that
upstream's checker accepts is played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lopd_envs.bfcl.calls import Call, write_call
from lopd_envs.bfcl.corpus import RELEVANCE, Document, Entry
from lopd_envs.bfcl.prompts import Protocol
from lopd_envs.bfcl.single_turn import official_check
from lopd_envs.bfcl.source_text import source_text
from lopd_envs.bfcl.wheel import Wheel
from lopd_envs.bfcl.world import World
from lopd_gym.messages import AssistantMessage, ToolCall

_IMPOSSIBLE = {
    # A required parameter for which no value is allowed.
    "live_simple_106-63-0",
    "live_simple_112-68-0",
    # A parameter that the function does not document is demanded.
    "live_multiple_862-181-3",
    "live_multiple_964-207-0",
    # Numbers and truth values in a list whose elements upstream reads as strings.
    "simple_java_36",
    "simple_java_65",
}
IMPOSSIBLE = {"BFCL_v4": _IMPOSSIBLE, "BFCL_v3": _IMPOSSIBLE | {"multi_turn_base_154"}}
"""Ids of the entries that no answer can pass, by the release's prefix."""

END_OF_TURN = AssistantMessage(text="That is all I can do for now.")


def solution(wheel: Wheel, entry: Entry, protocol: Protocol) -> list[AssistantMessage]:
    """Return the messages that play an entry's answer.

    A few answers do not pass upstream's own checker; they are played as they are.
    """
    if entry.multi_turn:
        return list(_conversation(wheel, entry, protocol))
    if entry.category in RELEVANCE:
        names = [document["name"] for document in entry.functions]
        wanted = entry.category == "live_relevance"
        return [_message([Call(names[0], {})], protocol) if wanted else END_OF_TURN]
    candidates = list(_candidates(entry))
    passing = (c for c in candidates if official_check(wheel, entry, c, dotted=True).passed)
    return [_message(next(passing, candidates[0]), protocol)]


def _conversation(wheel: Wheel, entry: Entry, protocol: Protocol) -> Iterator[AssistantMessage]:
    world = World(wheel, entry)
    for calls in entry.truth[: len(entry.turns)]:
        if calls:
            named = [Call(call.name, world.named(call)) for call in calls]
            yield _message(named, protocol)
        yield END_OF_TURN


def _message(calls: Sequence[Call], protocol: Protocol) -> AssistantMessage:
    if protocol == "prompting":
        written = ", ".join(write_call(call.name, call.arguments) for call in calls)
        return AssistantMessage(text=f"[{written}]")
    made = (ToolCall(call.name.replace(".", "_"), call.arguments) for call in calls)
    return AssistantMessage(tool_calls=tuple(made))


_OMIT, _FILL, _EMPTY = "omit", "fill", "empty"
"""What to do with a parameter that may be left out."""


def _candidates(entry: Entry) -> Iterator[list[Call]]:
    documents = {document["name"]: document for document in entry.functions}
    for optional in (_FILL, _OMIT, _EMPTY):
        calls = []
        for expected in entry.answer:
            ((name, allowed),) = expected.items()
            document = documents.get(name, entry.functions[0])  # a few answers misname it
            arguments = _arguments(entry, document, allowed, optional)
            calls.append(Call(document["name"], arguments))
        yield calls


def _arguments(
    entry: Entry, document: Document, allowed: Mapping[str, list[Any]], optional: str
) -> dict[str, Any]:
    arguments = {}
    for name, values in allowed.items():
        schema = document["parameters"]["properties"].get(name)
        named = [value for value in values if value != ""]
        if schema is None or not values or ("" in values and optional == _OMIT):
            continue
        value = _choose(named[0]) if named and not ("" in values and optional == _EMPTY) else ""
        if entry.language != "python":
            items = schema.get("items", {}).get("type", "any")
            value = source_text(entry.language, value, schema["type"], items)
        arguments[name] = value
    return arguments


def _choose(value: Any) -> Any:
    """Choose a value for each key where an answer's dictionary lists the allowed ones."""
    if isinstance(value, list):
        return [_choose(v) if isinstance(v, dict) else v for v in value]
    if isinstance(value, dict):
        named = {key: [v for v in values if v != ""] for key, values in value.items()}
        return {key: values[0] for key, values in named.items() if values}
    return value
