"""The official verdict on calls, after upstream's rules, their leniencies included.

What surprises is meant: one call may answer for two; numbers, booleans and enumerations are
compared by type only; where the answer has not the declared type, its value is not compared at all;
a string only has to contain the expected one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lopd_envs.acebench.notation import Call

_TYPES: Mapping[str, type[Any]] = {
    "string": str,
    "any": str,
    "integer": int,
    "int": int,
    "number": int,
    "float": float,
    "boolean": bool,
    "enum": enumerate,  # no value has this type, so an enumeration is never compared
    "dict": dict,
    "object": dict,
    "array": list,
    "tuple": list,
    "list": list,
    "objectArray": list,
    "list(string)": list,
    "list(enum)": list,
}
_NESTED = {"array", "tuple", "list(string)", "list(enum)", "object", "objectArray"}
_LITERALS = {"true": True, "false": False}


_UNCOMPARABLE = (KeyError, TypeError, AttributeError, ValueError, RecursionError, OverflowError)
"""What documents and answers raise that upstream's own comparison stumbles over."""


class _Wrong(Exception):
    """The first thing that is wrong with an answer."""


def official_fault(
    documents: Sequence[Mapping[str, Any]], calls: Sequence[Call], truth: Any
) -> str | None:
    """Return what is wrong with an answer, or None where it passes.

    Args:
        documents: The functions of the task.
        calls: The answer.
        truth: The expected calls, ``{name: arguments}``, or a list of such alternatives.
    """
    ways = truth if isinstance(truth, list) else [truth]
    faults = []
    for way in ways:
        try:
            _check_way(documents, calls, way)
        except _Wrong as err:
            faults.append(str(err))
        except _UNCOMPARABLE as err:
            faults.append(f"cannot be compared ({type(err).__name__}: {err})")
        else:
            return None
    return faults[0] if faults else "there is no answer to compare with"


def normalised(text: str) -> str:
    """Return a text without case, blanks and most punctuation."""
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')


def plain_name(key: str) -> str:
    """Return the function's name: the answers number repeated calls, as in ``name_1``."""
    return re.sub(r"_\d+$", "", key)


def _check_way(
    documents: Sequence[Mapping[str, Any]], calls: Sequence[Call], truth: Mapping[str, Any]
) -> None:
    if len(calls) != len(truth):
        raise _Wrong(f"expected {len(truth)} calls, found {len(calls)}")
    expected = Counter(plain_name(key) for key in truth)
    found = Counter(name for name, _ in calls)
    if expected != found:
        raise _Wrong(f"expected calls of {_names(expected)}, found {_names(found)}")
    for key, arguments in truth.items():
        document = next((d for d in documents if d["name"] in key), None)
        _check_any(document, [c for c in calls if c[0] == plain_name(key)], arguments)


def _names(counted: Counter[str]) -> str:
    return ", ".join(sorted(counted.elements()))


def _check_any(
    document: Mapping[str, Any] | None, calls: Sequence[Call], truth: Mapping[str, Any]
) -> None:
    """Check that one of the calls fits; it is not used up by that."""
    wrong: _Wrong | None = None
    for call in calls:
        try:
            _check_call(document, call, truth)
        except _Wrong as err:
            wrong = err
        else:
            return
    if wrong is not None:
        raise wrong


def _check_call(document: Mapping[str, Any] | None, call: Call, truth: Mapping[str, Any]) -> None:
    if document is None:
        raise TypeError("no function of this name is documented")
    (name, arguments), schema = call, document["parameters"]
    if not arguments and not schema:
        return
    if not arguments or not schema:
        raise _Wrong("arguments where none belong, or none where some do")
    if truth == schema["properties"]:
        return
    if not truth:
        raise _Wrong("arguments where none belong")
    if document["name"] != name:
        raise _Wrong(f"expected a call of {document['name']}, found one of {name}")
    _check_arguments(name, arguments, truth, schema)


def _check_arguments(
    name: str, arguments: Mapping[str, Any], truth: Mapping[str, Any], schema: Mapping[str, Any]
) -> None:
    for parameter in schema["required"]:
        if parameter not in arguments:
            raise _Wrong(f"{name}: {parameter} is missing")
    for parameter, value in arguments.items():
        if parameter not in schema["properties"] or parameter not in truth:
            raise _Wrong(f"{name}: {parameter} is not expected")
        if not _fits(value, truth[parameter], schema["properties"][parameter]):
            raise _Wrong(f"{name}: expected {parameter}={truth[parameter]!r}, found {value!r}")


def _fits(value: Any, truth: Any, declared: Mapping[str, Any]) -> bool:
    kind = declared["type"]
    expected = _TYPES[kind]
    nested = _TYPES[_item_type(declared)] if kind in _NESTED else None
    if kind == "tuple" and isinstance(value, tuple):
        value = list(value)
    if kind == "float" and type(value) is int:
        value = float(value)
    compared = _compared(value, truth, expected, nested)
    if compared is None:
        return False
    return not compared or _equal(value, truth, expected, nested)


def _item_type(declared: Mapping[str, Any]) -> str:
    kind = declared["type"]
    try:
        item: str = declared["items"]["type"]
    except (KeyError, TypeError):
        return next((name for name in ("string", "enum") if name in kind), "dict")
    return item


def _compared(value: Any, truth: Any, expected: type[Any], nested: type[Any] | None) -> bool | None:
    """Return whether the value has to be compared; None where its type already fails."""
    declared = truth == "" or type(truth) is expected
    value = _LITERALS.get(value, value) if isinstance(value, str) else value
    if type(value) is expected:
        if nested is None:
            return declared
        # Only items that are lists themselves are looked into, and one that fits is enough.
        fits = (
            not isinstance(item, list)
            or all(_compared(v, item, nested, None) is not None for v in value)
            for item in truth
        )
        return declared if any(fits) else None
    # An answer of its own type, other than the declared one: that type will do.
    return False if truth != "" and (type(value) is type(truth) or value == truth) else None


def _equal(value: Any, truth: Any, expected: type[Any], nested: type[Any] | None) -> bool:
    if expected is dict:
        return _objects_fit(value, truth)
    if expected is list and nested is dict:
        pairs = zip(value, truth, strict=False)
        return len(value) == len(truth) and all(_objects_fit(v, t) for v, t in pairs)
    if expected is str:
        return normalised(truth) in normalised(value)
    if expected is list:
        return [_plain(v) for v in value] == [_plain(t) for t in truth]
    return True


def _plain(value: Any) -> Any:
    return normalised(value) if isinstance(value, str) else value


def _objects_fit(value: Any, truth: Mapping[Any, Any]) -> bool:
    """Compare objects: the same keys, and each expected value's text within the found one's."""
    if not isinstance(value, dict) or len(value) != len(truth):
        return False
    for key, found in value.items():
        if key not in truth:
            return False
        found = _LITERALS.get(found, found) if isinstance(found, str) else found
        expected = truth[key]
        if isinstance(expected, dict):
            if not _objects_fit(found, expected):
                return False
        elif str(_plain(expected)) not in str(_plain(found)):
            return False
    return True
