"""Wrong, odd and reordered versions of an answer, written as the prompting protocol writes it.

None of them holds what upstream would execute and we by design do not: calls inside arguments, and
expressions of anything but numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from lopd_envs.bfcl.calls import Call, write_call

Turn = list[list[Call]]
"""The calls of one turn, by step."""

READS = [
    Call("ls", {}),
    Call("pwd", {}),
    Call("get_current_time", {}),
    Call("displayCarStatus", {"option": "fuel"}),
    Call("get_watchlist", {}),
    Call("list_users", {}),
    Call("get_user_tickets", {}),
    Call("get_current_speed", {}),
]

CHANGES = [
    Call("mkdir", {"dir_name": "notes"}),
    Call("touch", {"file_name": "notes.txt"}),
    Call("cd", {"folder": ".."}),
    Call("lockDoors", {"unlock": True, "door": ["driver"]}),
    Call("add_to_watchlist", {"stock": "NVDA"}),
    Call("post_tweet", {"content": "hello", "tags": ["#a"], "mentions": []}),
    Call("create_ticket", {"title": "broken", "description": "", "priority": 2}),
    Call("book_flight", {"card_id": "1", "travel_date": "2024-10-10"}),
    Call("logarithm", {"value": 10, "base": 3, "precision": 7}),
    Call("mean", {"numbers": [1, 2.5, 3]}),
]


def mutate(turns: list[Turn], rng: random.Random) -> list[str]:
    """Return the replies of a mutated episode; every turn ends with a plain text."""
    turns = [[list(step) for step in turn] for turn in turns]
    for _ in range(rng.choice((1, 1, 1, 2))):
        rng.choice(MUTATIONS)(turns, rng)
    replies = []
    for turn in turns:
        replies += [_written(step, rng) for step in turn if step]
        replies.append(rng.choice(("Done.", "", "[]", "I need [more] information", "f(", "`")))
    return replies


def _written(step: list[Call], rng: random.Random) -> str:
    text = ", ".join(write_call(call.name, call.arguments) for call in step)
    return rng.choice(
        (f"[{text}]", f"[{text}]", text, f"```[{text}]\n```", f" [{text}", f"({text},)")
    )


def _some_turn(turns: list[Turn], rng: random.Random) -> Turn:
    return rng.choice([turn for turn in turns if any(turn)] or turns)


def _drop_call(turns: list[Turn], rng: random.Random) -> None:
    step = rng.choice(_some_turn(turns, rng) or [[]])
    if step:
        step.pop(rng.randrange(len(step)))


def _drop_turn(turns: list[Turn], rng: random.Random) -> None:
    _some_turn(turns, rng).clear()


def _repeat_call(turns: list[Turn], rng: random.Random) -> None:
    turn = _some_turn(turns, rng)
    turn.append(list(rng.choice(turn)) if turn else [])


def _reverse_turn(turns: list[Turn], rng: random.Random) -> None:
    turn = _some_turn(turns, rng)
    turn[:] = [step[::-1] for step in turn[::-1]]


def _swap_turns(turns: list[Turn], rng: random.Random) -> None:
    first, second = rng.randrange(len(turns)), rng.randrange(len(turns))
    turns[first], turns[second] = turns[second], turns[first]


def _one_step(turns: list[Turn], rng: random.Random) -> None:
    turn = _some_turn(turns, rng)
    turn[:] = [[call for step in turn for call in step]]


def _add(calls: list[Call]) -> Callable[[list[Turn], random.Random], None]:
    def add(turns: list[Turn], rng: random.Random) -> None:
        turn = rng.choice(turns)
        turn.insert(rng.randrange(len(turn) + 1), [rng.choice(calls)])

    return add


def _alter_argument(turns: list[Turn], rng: random.Random) -> None:
    for step in _some_turn(turns, rng):
        for index, call in enumerate(step):
            if call.arguments:
                key = rng.choice(list(call.arguments))
                altered = _altered(call.arguments[key], rng)
                step[index] = Call(call.name, {**call.arguments, key: altered})
                return


def _altered(value: Any, rng: random.Random) -> Any:
    if isinstance(value, str):
        return rng.choice((value.upper(), f"{value} ", "", 7, None))
    if isinstance(value, bool):
        return rng.choice((not value, str(value), None))
    if isinstance(value, int | float):
        return rng.choice((value + 1, float(value), str(value), -value, [value]))
    return rng.choice(([], None, "x", [1, {"a": 2}], {"a": 1, "b": {}}, (1, 2)))


def _alter_names(turns: list[Turn], rng: random.Random) -> None:
    for step in _some_turn(turns, rng):
        for index, call in enumerate(step):
            if call.arguments and rng.random() < 0.5:
                renamed = {f"{key}_": value for key, value in call.arguments.items()}
                step[index] = Call(call.name, renamed)
            elif rng.random() < 0.3:
                step[index] = Call(f"api.{call.name}", call.arguments)


def _spin(turns: list[Turn], rng: random.Random) -> None:
    turn = rng.choice((turns[-1], rng.choice(turns)))
    turn += [[rng.choice(READS)] for _ in range(rng.choice((15, 20, 21, 22)))]


MUTATIONS = [
    _drop_call,
    _drop_turn,
    _repeat_call,
    _reverse_turn,
    _swap_turns,
    _one_step,
    _alter_argument,
    _alter_argument,
    _alter_names,
    _spin,
    _add(READS),
    _add(READS),
    _add(CHANGES),
    _add([Call("no_such_tool", {"x": 1}), Call("_load_scenario", {"scenario": {}})]),
]
