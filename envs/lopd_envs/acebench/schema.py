"""ACEBench's function documents as tool descriptions with a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lopd_gym.messages import ToolSpec

_TYPES = {"bool": "boolean", "dict": "object", "float": "number", "list": "array"}
"""Type names in the documents that JSON schema does not have."""


def parameters(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a function's parameters; some documents call them ``arguments``."""
    known = ("parameters", "arguments", "_arguments")
    found: Mapping[str, Any] = next((document[name] for name in known if document.get(name)), {})
    return found


def tool_spec(document: Mapping[str, Any]) -> ToolSpec:
    """Return one function of a task."""
    schema = {"type": "object", "properties": {}, "required": []} | _schema(parameters(document))
    return ToolSpec(document["name"], document.get("description", ""), schema)


def _schema(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: _TYPES.get(part, part)
            if name == "type" and isinstance(part, str)
            else _schema(part)
            for name, part in value.items()
        }
    return [_schema(part) for part in value] if isinstance(value, list) else value
