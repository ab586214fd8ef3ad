"""The simulated apps against upstream's classes: same calls, same states."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from lopd_envs.acebench.corpus import AGENT, LANGUAGES, Corpus
from lopd_envs.acebench.oracle import plan
from lopd_envs.acebench.scenes import Scene
from lopd_envs.acebench.scenes.base import Device
from lopd_envs.acebench.scenes.food import FoodPlatform
from lopd_envs.acebench.scenes.phone import Messages, Reminders
from lopd_envs.acebench.scenes.scene import CLASSES
from lopd_envs.acebench.scenes.travel import Travel

from lopd_gym.messages import ToolCall
from tests.lopd_envs.acebench.port import PortScene

SCORED = {
    "BaseApi": Device.SCORED,
    "MessageApi": Messages.SCORED,
    "ReminderApi": Reminders.SCORED,
    "FoodPlatform": FoodPlatform.SCORED,
    "Travel": Travel.SCORED,
}


def both(language: str, involved: list[str], config: dict[str, Any], calls: list[ToolCall]) -> None:
    """Play calls in both worlds and compare the states after each."""
    ours, theirs = Scene(language, involved, config), PortScene(language, involved, config)
    for call in calls:
        with suppress(Exception):
            ours.call(call.name, call.arguments)
        theirs.call(call.name, dict(call.arguments))
        assert ours.state() == theirs.state(SCORED), call


def test_planned_solutions_reach_the_same_states(corpus: Corpus) -> None:
    for category in AGENT:
        for row in corpus.rows[category]:
            fields = row.fields
            calls = plan(row, corpus.language)
            both(corpus.language, fields["involved_classes"], fields["initial_config"], calls)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("seed", range(40))
def test_random_calls_reach_the_same_states(language: str, seed: int) -> None:
    rng = random.Random(seed)
    config = {"BaseApi": {"wifi": rng.random() < 0.7, "logged_in": rng.random() < 0.7}}
    both(language, list(CLASSES), config, list(_random_calls(rng, language, 60)))


def _random_calls(rng: random.Random, language: str, count: int) -> Iterator[ToolCall]:
    scene = Scene(language, CLASSES, {})
    travel, food = scene._apps["Travel"], scene._apps["FoodPlatform"]
    assert isinstance(travel, Travel)
    assert isinstance(food, FoodPlatform)
    names = ["Eve", "Frank", "Helen", "Jack", "Nobody"]
    passwords = ["password123", "password456", "password789", "password654"]
    users = ["user1", "user2", "user3", "user9"]
    cabins = [*travel._cabins, "Sleeper"]
    flights = [f["flight_no"] for f in travel._flights] + ["XX1"]
    reservations = [f"res_{n}" for n in range(1, 8)]
    merchants = [*food._menus, "Nobody's"]
    products = [e["product"] for menu in food._menus.values() for e in menu]
    odd = [None, "3", 2.5, [], {}, True]

    def pick(*values: Any) -> Any:
        return rng.choice(odd) if rng.random() < 0.04 else rng.choice(values)

    def item() -> dict[str, Any]:
        entry = {"product": pick(*products), "quantity": pick(1, 1, 2, 0, -1)}
        return entry if rng.random() < 0.9 else {"product": entry["product"]}

    def order() -> dict[str, Any]:
        merchant = pick(*merchants)
        own = food._menus.get(merchant) if isinstance(merchant, str) else None
        items = (
            [item()]
            if rng.random() < 0.3 or not own
            else [{"product": rng.choice(own)["product"], "quantity": pick(1, 2, 4)}]
        )
        return {"username": pick(*names), "merchant_name": merchant, "items": items}

    makers = {
        "turn_on_wifi": dict,
        "login_device": dict,
        "get_latest_message_id": dict,
        "send_message": lambda: {
            "sender_name": pick(*names),
            "receiver_name": pick(*names),
            "message": pick("hello", "bye"),
        },
        "delete_message": lambda: {"message_id": pick(1, 2, 3, 4, 5, 6, 7, 9)},
        "search_messages": lambda: {"user_name": pick(*names), "keyword": pick("meet", "x")},
        "add_reminder": lambda: {"title": pick("a", "b"), "description": "c", "time": pick("d")},
        "login_food_platform": lambda: {"username": pick(*names), "password": pick(*passwords)},
        "check_balance": lambda: {"user_name": pick(*names)},
        "get_products": lambda: {"merchant_name": pick(*merchants)},
        "add_food_delivery_order": order,
        "reserve_flight": lambda: {
            "user_id": pick(*users),
            "password": pick(*passwords),
            "flight_no": pick(*flights),
            "cabin": pick(*cabins),
            "payment_method": pick("cash", "bank", "card"),
            "baggage_count": pick(0, 1, 2, 5, -1),
        },
        "modify_flight": lambda: {
            "user_id": pick(*users),
            "reservation_id": pick(*reservations),
            "new_flight_no": pick(*flights),
            "new_cabin": pick(*cabins),
            "add_baggage": pick(0, 1, 3, -2),
            "new_payment_method": pick("cash", "bank", "card", None),
        },
        "cancel_reservation": lambda: {
            "user_id": pick(*users),
            "reservation_id": pick(*reservations),
            "reason": pick("plans changed", "The airline has canceled the flight."),
        },
    }
    for _ in range(count):
        name = rng.choice(list(makers))
        arguments = makers[name]()
        if arguments and rng.random() < 0.05:
            arguments.pop(rng.choice(list(arguments)))
        yield ToolCall(name, arguments)
