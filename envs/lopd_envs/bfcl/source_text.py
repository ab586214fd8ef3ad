"""Values as Java or JavaScript source, in the spellings that upstream's converters read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_JAVA_ELEMENTS = {"integer": "Integer", "long": "Long", "String": "String", "any": "Object"}


def source_text(language: str, value: Any, kind: str, items: str = "any") -> str:
    """Write a value of a declared type as source text; a string elsewhere names a variable.

    Args:
        language: ``java`` or ``javascript``.
        value: The value.
        kind: Its declared type.
        items: The declared type of its elements.
    """
    write = _java if language == "java" else _javascript
    if kind in ("String", "any", "dict", "HashMap") or not isinstance(value, str):
        return write(value, kind, items)
    return value


def _java(value: Any, kind: str, items: str = "any") -> str:
    if isinstance(value, list) and kind == "Array":
        # Upstream takes quotes inside an array for a part of the string, so there are none.
        return f"new {items}[]{{{', '.join(_java(v, items) for v in value)}}}"
    if isinstance(value, list):
        parts = ", ".join(_java_part(v, items) for v in value)
        return f"new ArrayList<{_JAVA_ELEMENTS[items]}>(Arrays.asList({parts}))"
    if isinstance(value, Mapping):
        puts = " ".join(f'put("{k}", {_java_part(v, "any")});' for k, v in value.items())
        return f"new HashMap<String, Object>() {{{{ {puts} }}}}"
    if isinstance(value, bool):
        return json.dumps(value)
    return f"{value}L" if kind == "long" else str(value)


def _java_part(value: Any, kind: str) -> str:
    return json.dumps(value) if isinstance(value, str) else _java(value, kind)


def _javascript(value: Any, kind: str, items: str = "any") -> str:
    if isinstance(value, list):
        return f"[{', '.join(_javascript_part(v) for v in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k}: {_javascript_part(v)}' for k, v in value.items())}}}"
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _javascript_part(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else _javascript(value, "any")
