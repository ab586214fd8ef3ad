"""Text of models and tools, made fit to be shown: it may hold anything."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Characters that reorder the text around them."""

_NUMBERED = re.compile(r"[\w-]*\d[\w-]*")


def visible(text: str) -> str:
    """Replace what a terminal obeys or a file cannot hold: control characters, lone surrogates.

    Line breaks and tabs stay; others become their picture (escape: U+241B) or U+FFFD.
    """
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char in "\n\t" or (char.isprintable() and ord(char) < 0x80):
        return char
    code, category = ord(char), unicodedata.category(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\ufffd" if category in ("Cc", "Cs") or code in _BIDI else char


def call_text(call: Mapping[str, Any]) -> str:
    """Return a tool call as ``name(argument=value)``, values as JSON."""
    arguments = call.get("arguments", {})
    parts = (f"{name}={json.dumps(v, ensure_ascii=False)}" for name, v in arguments.items())
    return f"{call.get('name', '')}({', '.join(parts)})"


def check_kind(name: str) -> str:
    """Return a check's name with every word that holds a digit replaced by ``#``.

    Checks of different tasks that ask for the same thing of other objects are counted together.
    """
    return _NUMBERED.sub("#", name)
