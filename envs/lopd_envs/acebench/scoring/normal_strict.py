"""Our own strict verdict on calls: every value is compared, and every call answers for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lopd_envs.acebench.notation import Call
from lopd_envs.acebench.schema import parameters
from lopd_envs.acebench.scoring.normal_official import normalised, plain_name


def expected_calls(documents: Sequence[Mapping[str, Any]], truth: Mapping[str, Any]) -> list[Call]:
    """Return the expected calls under the functions' real names."""
    names = {document["name"] for document in documents}
    return [(k if k in names else plain_name(k), dict(v)) for k, v in truth.items()]


def strict_fault(
    documents: Sequence[Mapping[str, Any]], calls: Sequence[Call], truth: Any
) -> tuple[str | None, bool]:
    """Return what is wrong with an answer (None: nothing), and whether it left nothing out.

    A parameter that the function does not require may be left out, since the task's rules permit
    it where the user does not state it; the second value says whether that was made use of.
    """
    ways = truth if isinstance(truth, list) else [truth]
    results = [_check_way(documents, calls, way) for way in ways]
    best: tuple[str | None, bool] = min(results, key=lambda result: result[0] is not None)
    return best


def _check_way(
    documents: Sequence[Mapping[str, Any]], calls: Sequence[Call], truth: Mapping[str, Any]
) -> tuple[str | None, bool]:
    expected = expected_calls(documents, truth)
    wanted, found = sorted(n for n, _ in expected), sorted(n for n, _ in calls)
    if wanted != found:
        return f"expected calls of {', '.join(wanted)}, found {', '.join(found) or 'none'}", False
    schemas = {document["name"]: parameters(document) for document in documents}
    fits = [
        [
            name == other and _call_fault(schemas.get(name, {}), values, theirs) is None
            for other, values in calls
        ]
        for name, theirs in expected
    ]
    owners = _assignment(fits)
    if owners is None:
        return _first_fault(schemas, calls, expected), False
    pairs = zip(owners, expected, strict=True)
    return None, all(calls[index][1].keys() == theirs.keys() for index, (_, theirs) in pairs)


def _first_fault(
    schemas: Mapping[str, Mapping[str, Any]], calls: Sequence[Call], expected: Sequence[Call]
) -> str:
    for name, theirs in expected:
        faults = [_call_fault(schemas.get(name, {}), v, theirs) for n, v in calls if n == name]
        if None not in faults:
            return f"{name}: {faults[0]}"
    return "one call answers for several"


def _assignment(fits: Sequence[Sequence[bool]]) -> list[int] | None:
    """Match every expected call with a call of its own (Kuhn's algorithm); None if impossible."""
    owner: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column, fit in enumerate(fits[row]):
            if fit and column not in tried:
                tried.add(column)
                if column not in owner or place(owner[column], tried):
                    owner[column] = row
                    return True
        return False

    if not all(place(row, set()) for row in range(len(fits))):
        return None
    return sorted(owner, key=lambda column: owner[column])


def _call_fault(
    schema: Mapping[str, Any], values: Mapping[str, Any], truth: Mapping[str, Any]
) -> str | None:
    for parameter in schema.get("required", ()):
        if parameter in truth and parameter not in values:
            return f"{parameter} is missing"
    for parameter, value in values.items():
        if parameter not in truth:
            return f"{parameter} is not expected"
        declared = schema.get("properties", {}).get(parameter, {})
        if not same(value, truth[parameter], declared):
            return f"expected {parameter}={truth[parameter]!r}, found {value!r}"
    return None


def same(value: Any, truth: Any, declared: Any) -> bool:
    """Whether two values mean the same.

    Texts are compared without case, blanks and most punctuation; numbers as numbers; lists in
    order; objects key by key. Where the answer writes a number or boolean as text, a value of the
    declared type that reads the same passes as well.
    """
    declared = declared if isinstance(declared, Mapping) else {}
    if isinstance(value, Mapping) and isinstance(truth, Mapping):
        parts = declared.get("properties", {})
        return value.keys() == truth.keys() and all(
            same(value[key], truth[key], parts.get(key)) for key in truth
        )
    if isinstance(value, list | tuple) and isinstance(truth, list | tuple):
        pairs = zip(value, truth, strict=False)
        items = declared.get("items")
        return len(value) == len(truth) and all(same(v, t, items) for v, t in pairs)
    if isinstance(value, str) and isinstance(truth, str):
        return normalised(value) == normalised(truth)
    if isinstance(value, bool) or isinstance(truth, bool):
        return value is truth or (truth in ("true", "false") and _literal(value) == truth)
    if isinstance(value, int | float) and isinstance(truth, int | float):
        return value == truth
    if isinstance(value, str) or isinstance(truth, str):
        return _declared(value, declared) and _literal(value) == _literal(truth)
    return value is None and truth is None


def _declared(value: Any, declared: Mapping[str, Any]) -> bool:
    kinds: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "float": (int, float),
    }
    return isinstance(value, kinds.get(str(declared.get("type")), ()))


def _literal(value: Any) -> str:
    """Return how a scalar is written, numbers alike whether they have a decimal point."""
    try:
        return f"{float(value)}" if not isinstance(value, bool) else str(value).lower()
    except (TypeError, ValueError, OverflowError):
        return str(value).lower()
