"""Function documents as the policy sees them: upstream's hints and conversion to JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from lopd_envs.bfcl.corpus import Document, Entry
from lopd_envs.bfcl.wheel import Wheel
from lopd_gym.messages import ToolSpec

_HINTS = {
    "python": " Note that the provided function is in Python 3 syntax.",
    "java": " Note that the provided function is in Java 8 SDK syntax.",
    "javascript": " Note that the provided function is in JavaScript syntax.",
}
_LANGUAGES = {"java": "Java", "javascript": "JavaScript"}
_LISTS = {"java": ("ArrayList", "Array"), "javascript": ("array",)}


def offered(entry: Entry) -> list[Document]:
    """Return the documents offered from the start, with upstream's hints on the language.

    Documents that are added in a later turn carry no hint.
    """
    documents = deepcopy(list(entry.functions))
    for document in documents:
        document["description"] += _HINTS[entry.language]
        if entry.language in _LANGUAGES:
            for schema in document["parameters"]["properties"].values():
                _as_source_text(schema, entry.language)
    return documents


def tool_specs(wheel: Wheel, documents: Sequence[Document]) -> tuple[ToolSpec, ...]:
    """Convert documents to tools; dots in names become ``_``, and the response is left out."""
    kinds: Mapping[str, str] = wheel.types.GORILLA_TO_OPENAPI
    return tuple(
        ToolSpec(
            document["name"].replace(".", "_"),
            document["description"],
            {
                **document["parameters"],
                "type": "object",
                "properties": _properties(document["parameters"]["properties"], kinds),
            },
        )
        for document in documents
    )


def _as_source_text(schema: dict[str, Any], language: str) -> None:
    """Turn a Java or JavaScript parameter into a string that holds source text."""
    name, kind = _LANGUAGES[language], schema["type"]
    if kind == "any":
        about = f" This parameter can be of any type of {name} object in string representation."
    else:
        about = f" This is {name} {kind} type parameter in string representation."
    if kind in _LISTS[language]:
        items = schema.pop("items")["type"]
        about += f" The list elements are of type {items}; they are not in string representation."
    if language == "javascript" and kind == "dict" and "properties" in schema:
        about += (
            " The dictionary entries have the following schema; they are not in string "
            f"representation. {json.dumps(schema.pop('properties'))}"
        )
    schema["description"] += about
    schema["type"] = "string"


def _properties(properties: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    return {name: _schema(schema, kinds) for name, schema in properties.items()}


def _schema(schema: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Convert one parameter. Like upstream's, it stops below the items of an array's items."""
    new = dict(schema)
    new["type"] = kinds.get(schema.get("type", "string"), "string")
    if schema.get("type") == "float":
        new["format"] = "float"
        new["description"] = f"{schema['description']} This is a float type value."
    if new["type"] in ("array", "object"):
        if "properties" in schema:
            new["properties"] = _properties(schema["properties"], kinds)
        elif "items" in schema:
            new["items"] = _items(schema["items"], kinds)
    return new


def _items(items: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    new = {**items, "type": kinds[items["type"]]}
    if new["type"] == "array" and "items" in items:
        new["items"] = {**items["items"], "type": kinds[items["items"]["type"]]}
    elif new["type"] == "object" and "properties" in items:
        new["properties"] = _properties(items["properties"], kinds)
    return new
