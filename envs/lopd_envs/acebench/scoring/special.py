"""Verdicts on the special cases, in which the right reply is a sentence of a fixed form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

INCORRECT = (
    "There is incorrect value ({values}) for the parameters ({keys}) in the conversation history."
)
MISSING = "Missing necessary parameters ({keys}) for the api ({api})"
LIMITED = "Due to the limitations of the function, I cannot solve this problem."


def sentence(category: str, truth: Any) -> str:
    """Return the reply that a task expects."""
    if category == "special_irrelevant":
        text = LIMITED
    elif category == "special_incomplete":
        ((api, keys),) = truth.items()
        text = MISSING.format(keys=", ".join(keys), api=api)
    else:
        values = ", ".join(str(value) for wrong in truth.values() for value in wrong)
        text = INCORRECT.format(values=values, keys=", ".join(truth))
    return f'["{text}"]'


def official_fault(category: str, reply: str, truth: Any) -> str | None:
    """Return what is wrong with a reply: upstream looks for pieces of text anywhere in it."""
    if category == "special_irrelevant":
        pieces = ["the limitations of the function"]
    elif category == "special_incomplete":
        keys = [key for missing in truth.values() for key in missing]
        pieces = ["Missing necessary parameters", *truth, *keys]
    else:
        values = [str(value) for wrong in truth.values() for value in wrong]
        pieces = ["There is incorrect value", *values]
    absent = [piece for piece in pieces if piece not in reply]
    return f"expected {absent[0]!r} in the reply" if absent else None


def strict_fault(category: str, reply: str, truth: Any) -> str | None:
    """Return what is wrong with a reply that has to be the one right sentence, and nothing else."""
    text = reply.strip().removeprefix("[").removesuffix("]").strip().strip("\"'")
    if category == "special_irrelevant":
        return None if text == LIMITED else "expected only the sentence on limitations"
    if category == "special_incomplete":
        found = re.fullmatch(_pattern(MISSING), text)
        ((api, keys),) = truth.items()
        right = found and found["api"] == api and _split(found["keys"]) == set(keys)
        return None if right else f"expected only {', '.join(keys)} of {api} as missing"
    found = re.fullmatch(_pattern(INCORRECT), text, re.DOTALL)
    right = found and _names_all(found["values"], truth) and _split(found["keys"]) == set(truth)
    return None if right else f"expected only {', '.join(truth)} as incorrect, with the values"


def _pattern(form: str) -> str:
    """Return the regular expression of a sentence; a full stop at its end may be added."""
    return re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*)", re.escape(form)) + r"\.?"


def _split(names: str) -> set[str]:
    return {name.strip(" '\"`") for name in re.split("[,\uff0c]", names)}


def _names_all(found: str, truth: Mapping[str, Any]) -> bool:
    return all(str(value) in found for wrong in truth.values() for value in wrong)
