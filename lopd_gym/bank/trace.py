"""Compact action-result traces: what of a successful episode is worth remembering.

One line per executed call, arguments as compact literals, results reduced to ids, status and
error messages. Refused and malformed calls are left out.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from typing import Any

TRACE_HEADER = "Example steps (a different task, already solved):"
MAX_VALUE_CHARS = 80
MAX_RESULT_CHARS = 120

_TELLING = ("success", "ok", "status", "error", "message")


def write_trace(actions: Iterable[tuple[str, Mapping[str, Any], str]]) -> str:
    """Render executed calls, each given as (tool, arguments, observation), as numbered lines."""
    lines = [
        f"{number}. {name}({_arguments(arguments)}) -> {reduce_result(observation)}"
        for number, (name, arguments, observation) in enumerate(actions, start=1)
    ]
    return "\n".join(lines)


def item_text(instruction: str, trace: str) -> str:
    """Return the text of an experience as a reader sees it: task, header, steps."""
    return f"{instruction}\n{TRACE_HEADER}\n{trace}"


def reduce_result(observation: str) -> str:
    """Shorten an observation to ids, status and error message, at most 120 characters."""
    value = _literal(observation)
    if isinstance(value, Mapping):
        found = [f"{k}={v}" for k, v in _scalars(value) if k in _TELLING or _is_id(k)]
        observation = ",".join(found) or "ok"
    return _clip(" ".join(observation.split()), MAX_RESULT_CHARS)


def _arguments(arguments: Mapping[str, Any]) -> str:
    parts = (f"{key}={_value(value)}" for key, value in arguments.items())
    return ",".join(parts)


def _value(value: Any) -> str:
    return _clip(json.dumps(value, ensure_ascii=False, separators=(",", ":")), MAX_VALUE_CHARS)


def _scalars(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return scalar entries, those of a nested ``data`` mapping included."""
    inner = value.get("data")
    nested = _scalars(inner) if isinstance(inner, Mapping) else []
    return [(k, v) for k, v in value.items() if isinstance(v, str | int | float)] + nested


def _is_id(key: str) -> bool:
    return key == "id" or key.endswith("_id")


def _literal(text: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
