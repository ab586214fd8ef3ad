"""Give MBPP+ inputs back the types that JSON took from them.

MBPP's functions take tuples, sets and complex numbers; the release stores lists and texts. Which
task needs which repair is known by its number only, as in EvalPlus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Repair = Callable[[list[Any]], list[Any]]
"""Turns the arguments of one call into what they were."""


def _all_tuples(arguments: list[Any]) -> list[Any]:
    return [tuple(a) for a in arguments]


def _lists_of_tuples(arguments: list[Any]) -> list[Any]:
    return [[tuple(item) for item in a] for a in arguments]


def _tuples_of_tuples(arguments: list[Any]) -> list[Any]:
    return [tuple(tuple(item) for item in a) for a in arguments]


def _first_list_of_tuples(arguments: list[Any]) -> list[Any]:
    return [[tuple(item) for item in arguments[0]], *arguments[1:]]


def _first_tuple(arguments: list[Any]) -> list[Any]:
    return [tuple(arguments[0]), *arguments[1:]]


def _second_tuple(arguments: list[Any]) -> list[Any]:
    return [arguments[0], tuple(arguments[1]), *arguments[2:]]


def _list_of_sets(arguments: list[Any]) -> list[Any]:
    # An empty collection was an empty dict, in MBPP itself.
    return [[set(item) if isinstance(item, list) and item else {} for item in arguments[0]]]


def _float_and_complex(arguments: list[Any]) -> list[Any]:
    return [float(arguments[0]), complex(arguments[1])]


def _complex(arguments: list[Any]) -> list[Any]:
    return [complex(arguments[0])]


def _mixed_tuple(arguments: list[Any]) -> list[Any]:
    return [tuple(tuple(i) if isinstance(i, list) else i for i in arguments[0])]


def _dict_of_tuples(arguments: list[Any]) -> list[Any]:
    return [{key: tuple(value) for key, value in arguments[0].items()}, *arguments[1:]]


def _deep_tuples(arguments: list[Any]) -> list[Any]:
    return [_deep_tuple(a) for a in arguments]


def _deep_tuple(value: Any) -> Any:
    return tuple(_deep_tuple(v) for v in value) if isinstance(value, list) else value


_TASKS: dict[Repair, str] = {
    _all_tuples: "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 "
    "744 809",
    _lists_of_tuples: "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780",
    _tuples_of_tuples: "259 401 445",
    _first_list_of_tuples: "75 413 444 753",
    _first_tuple: "250 307 405 446 617 720 763 808",
    _second_tuple: "106 750",
    _list_of_sets: "115",
    _float_and_complex: "124",
    _complex: "252",
    _mixed_tuple: "278",
    _dict_of_tuples: "722",
    _deep_tuples: "580 615 791",
}
_REPAIRS = {f"Mbpp/{n}": repair for repair, numbers in _TASKS.items() for n in numbers.split()}


def repair_inputs(task_id: str, inputs: list[list[Any]]) -> list[list[Any]]:
    """Return the inputs of a task, each a list of arguments, with their types restored."""
    repair = _REPAIRS.get(task_id)
    return inputs if repair is None else [repair(arguments) for arguments in inputs]
