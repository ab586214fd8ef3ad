"""Find the program in a model's reply."""

from __future__ import annotations

import re

MAX_REPLY_CHARS = 200_000

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([^\s`]*)[^\n`]*$", re.MULTILINE)


def extract_code(reply: str, entry_point: str = "") -> str | None:
    """Return the program that a reply submits, or None if it holds none.

    Of the fenced blocks, the last one that defines the entry point counts, else the last one that
    is marked as Python, else the last. A reply without a fence counts whole if it defines the
    entry point. The code is not parsed here: what a model wrote may be made to break a parser.

    Args:
        reply: What the model said.
        entry_point: Name of the function or class that is asked for; empty for whole programs.
    """
    reply = reply[:MAX_REPLY_CHARS]
    defines = re.compile(rf"^[ \t]*(async[ \t]+def|def|class)[ \t]+{re.escape(entry_point)}\b|"
                         rf"^{re.escape(entry_point)}[ \t]*=", re.MULTILINE)  # fmt: skip
    blocks = fenced_blocks(reply)
    if not blocks:
        return reply if entry_point and defines.search(reply) else None
    if entry_point:
        defining = [code for _, code in blocks if defines.search(code)]
        if defining:
            return defining[-1]
    marked = [code for language, code in blocks if language in ("python", "python3", "py")]
    return (marked or [code for _, code in blocks])[-1]


def fenced_blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, content) of every fenced block; the last one may be left open."""
    blocks = []
    position = 0
    while opening := _FENCE.search(text, position):
        fence, language = opening[1], opening[2].lower()
        closing = re.compile(rf"^[ \t]*{fence}[ \t]*$", re.MULTILINE).search(text, opening.end())
        end = closing.start() if closing else len(text)
        blocks.append((language, text[opening.end() + 1 : end]))
        if closing is None:
            break
        position = closing.end()
    return blocks
