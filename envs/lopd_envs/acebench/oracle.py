"""Solutions: the expected calls or sentence, and for agents calls that reach the end state.

Those are planned from the expected end state. Upstream's milestones are no demonstrations: many of
them do not reach the end state that the same row expects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import product
from typing import Any

from lopd_envs.acebench.corpus import Row
from lopd_envs.acebench.prompt import FINISH
from lopd_envs.acebench.scenes.scene import Scene
from lopd_envs.acebench.scoring.agent import repaired
from lopd_envs.acebench.scoring.normal_strict import expected_calls
from lopd_envs.acebench.scoring.special import sentence
from lopd_gym.messages import AssistantMessage, ToolCall

States = Mapping[str, Mapping[str, Any]]


def solve(row: Row, language: str) -> list[AssistantMessage]:
    """Return the turns of a policy that knows the answer."""
    if row.kind == "agent":
        turns = [AssistantMessage(tool_calls=(call,)) for call in plan(row, language)]
        return [*turns, AssistantMessage(text=FINISH)]
    if row.kind == "special":
        return [AssistantMessage(text=sentence(row.category, row.truth))]
    truth = row.truth[0] if isinstance(row.truth, list) else row.truth
    calls = expected_calls(row.fields["function"], truth)
    return [AssistantMessage(tool_calls=tuple(ToolCall(*call) for call in calls))]


@lru_cache(maxsize=4)
def impossible(language: str, scoring: str) -> frozenset[str]:
    """Return the ids of rows whose own answer is no pass, which `impossible.json` lists.

    Officially these are mostly dialogues whose answers hold blanks, which upstream drops from
    replies only; strictly, reminders that would need the number of another one.
    """
    text = files(__package__).joinpath("impossible.json").read_text("utf-8")
    return frozenset(json.loads(text)[language][scoring])


def plan(row: Row, language: str) -> list[ToolCall]:
    """Return calls that lead from the task's initial state to the expected one."""
    start = repaired(_scene(row, language).state())
    goal = repaired(row.truth)
    calls = [
        *_device(start, goal),
        *_food(start, goal),
        *_messages(start, goal),
        *_reminders(start, goal),
    ]
    return calls + _travel(row, language, start, goal) if "Travel" in goal else calls


def _scene(row: Row, language: str) -> Scene:
    return Scene(language, row.fields["involved_classes"], row.fields["initial_config"])


def _device(start: States, goal: States) -> Iterator[ToolCall]:
    before, after = start.get("BaseApi", {}), goal.get("BaseApi", {})
    for attribute, tool in (("logged_in", "login_device"), ("wifi", "turn_on_wifi")):
        if after.get(attribute) and not before.get(attribute):
            yield ToolCall(tool, {})


def _food(start: States, goal: States) -> Iterator[ToolCall]:
    expected = goal.get("FoodPlatform", {})
    for user in expected.get("logged_in_users", ()):
        password = start["FoodPlatform"]["users"][user]["password"]
        yield ToolCall("login_food_platform", {"username": user, "password": password})
    for order in expected.get("orders", ()):
        items = [{name: item[name] for name in ("product", "quantity")} for item in order["items"]]
        yield ToolCall(
            "add_food_delivery_order",
            {
                "username": order["user_name"],
                "merchant_name": order["merchant_name"],
                "items": items,
            },
        )


def _messages(start: States, goal: States) -> Iterator[ToolCall]:
    before = start.get("MessageApi", {}).get("inbox", {})
    after = goal.get("MessageApi", {}).get("inbox", before)
    for number in before.keys() - after.keys():
        yield ToolCall("delete_message", {"message_id": int(number)})
    for number in sorted(after.keys() - before.keys(), key=int):
        entry = after[number]
        yield ToolCall(
            "send_message",
            {
                "sender_name": _CONTACTS[entry["sender_id"]],
                "receiver_name": _CONTACTS[entry["receiver_id"]],
                "message": entry["message"],
            },
        )


_CONTACTS = {
    f"USR{100 + number}": name
    for number, name in enumerate(("Eve", "Frank", "Grace", "Helen", "Isaac", "Jack"))
}


def _reminders(start: States, goal: States) -> Iterator[ToolCall]:
    before = start.get("ReminderApi", {}).get("reminder_list", {})
    for number, entry in goal.get("ReminderApi", {}).get("reminder_list", {}).items():
        if before.get(number) != entry:
            fields = {name: entry[name] for name in ("title", "description", "time")}
            yield ToolCall("add_reminder", fields)


def _travel(row: Row, language: str, start: States, goal: States) -> list[ToolCall]:
    """Find bookings, changes and cancellations; what was paid how is found by trying."""
    users = start["Travel"]["users"]
    before = {r["reservation_id"]: r for r in start["Travel"]["reservations"]}
    options: list[list[list[ToolCall]]] = []
    for entry in goal["Travel"]["reservations"]:
        old = before.get(entry["reservation_id"])
        if old is None:
            options.append([[_booking(entry, users[entry["user_id"]]["password"])]])
        elif old != entry:
            options.append([[_change(old, entry, method)] for method in ("cash", "bank")])
        else:
            options.append([[], [_cancellation(entry)]])
    for choice in product(*options):
        calls = [call for part in choice for call in part]
        scene = _scene(row, language)
        for call in calls:
            scene.call(call.name, call.arguments)
        if repaired(scene.state())["Travel"] == goal["Travel"]:
            return calls
    return []


def _booking(entry: Mapping[str, Any], password: str) -> ToolCall:
    names = ("user_id", "flight_no", "cabin", "payment_method")
    arguments = {name: entry[name] for name in names}
    arguments |= {"password": password, "baggage_count": entry["baggage"]}
    return ToolCall("reserve_flight", arguments)


def _change(old: Mapping[str, Any], new: Mapping[str, Any], method: str) -> ToolCall:
    arguments = {"user_id": old["user_id"], "reservation_id": old["reservation_id"]}
    arguments |= {f"new_{n}": new[n] for n in ("flight_no", "cabin") if new[n] != old[n]}
    extra = new["baggage"] - old["baggage"]
    return ToolCall(
        "modify_flight",
        arguments | ({"add_baggage": extra} if extra else {}) | {"new_payment_method": method},
    )


def _cancellation(entry: Mapping[str, Any]) -> ToolCall:
    arguments = {name: entry[name] for name in ("user_id", "reservation_id")}
    return ToolCall("cancel_reservation", arguments | {"reason": "change of plans"})
