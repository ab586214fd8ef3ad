"""Episodes do not see each other: in one thread, in eight, and in two processes."""

from __future__ import annotations

import decimal
import multiprocessing
import random
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from copy import deepcopy

import pytest
from lopd_envs.bfcl import make_bfcl
from lopd_envs.bfcl.calls import Call
from lopd_envs.bfcl.corpus import load_category
from lopd_envs.bfcl.wheel import Wheel
from lopd_envs.bfcl.world import World

from tests.lopd_envs.bfcl.mutations import mutate
from tests.lopd_envs.bfcl.test_parity import answer, play

CATEGORIES = ("multi_turn_base", "multi_turn_long_context")
TASKS = 5
ATTEMPTS = 3

Episodes = list[tuple[bool, list[str]]]
"""Verdicts and tool results."""


def verdicts(category: str) -> Episodes:
    """Play every task several times, right and wrong, and return verdicts and tool results."""
    env, answering = make_bfcl(category, protocol="prompting"), make_bfcl(category)
    math = [t for t in env.tasks(category) if "MathAPI" in t.data["entry"].raw["involved_classes"]]
    found = []
    for task in (*env.tasks(category)[:TASKS], *math[:TASKS]):
        for attempt in range(ATTEMPTS):
            turns = answer(answering, task)
            replies = mutate(turns, random.Random(f"{task.id}/{attempt}"))
            found.append(play(env, task, replies))
    return found


def play_parallel(pool: Executor, rounds: int) -> list[tuple[str, Episodes]]:
    jobs = [(category, pool.submit(verdicts, category)) for category in CATEGORIES * rounds]
    return [(category, job.result()) for category, job in jobs]


@pytest.fixture(scope="module")
def serial(wheel: Wheel) -> dict[str, Episodes]:
    return {category: verdicts(category) for category in CATEGORIES}


def test_eight_threads(serial: dict[str, Episodes]) -> None:
    with ThreadPoolExecutor(8) as pool:
        for category, found in play_parallel(pool, 4):
            assert found == serial[category]
    assert {verdict for episodes in serial.values() for verdict, _ in episodes} == {True, False}


def test_two_processes(serial: dict[str, Episodes]) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for category, found in play_parallel(pool, 1):
            # Not the results: one of TravelAPI's error texts lists a set, in the order of hashes.
            assert [verdict for verdict, _ in found] == [v for v, _ in serial[category]]


def test_decoys_of_long_context_are_not_shared(wheel: Wheel) -> None:
    entries = load_category(wheel, "multi_turn_long_context")
    entry = next(e for e in entries if "TravelAPI" in e.raw["involved_classes"])
    first, second = World(wheel, entry), World(wheel, entry)
    untouched = deepcopy(second.instances["TravelAPI"].credit_card_list)
    cards = first.instances["TravelAPI"].credit_card_list
    assert len(cards) > 5
    for card in cards.values():
        card["balance"] = -1
    assert second.instances["TravelAPI"].credit_card_list == untouched
    assert World(wheel, entry).instances["TravelAPI"].credit_card_list == untouched


def test_what_a_call_is_given_is_not_shared(wheel: Wheel) -> None:
    entries = load_category(wheel, "multi_turn_base")
    entry = next(e for e in entries if "TwitterAPI" in e.raw["involved_classes"])
    arguments = {"content": "hello", "tags": ["#a"], "mentions": ["@b"]}
    world = World(wheel, entry)
    world.instances["TwitterAPI"].authenticated = True
    result = world.call(Call("post_tweet", arguments))
    assert "hello" in result.content
    arguments["tags"].append("#later")  # type: ignore[attr-defined]
    tweets = world.instances["TwitterAPI"].tweets.values()
    assert [t["tags"] for t in tweets if t["content"] == "hello"] == [["#a"]]


def test_the_precision_of_the_process_is_left_alone(wheel: Wheel) -> None:
    entries = load_category(wheel, "multi_turn_base")
    world = World(wheel, next(e for e in entries if "MathAPI" in e.raw["involved_classes"]))
    before = wheel.mpmath.mp.dps, decimal.getcontext().prec
    logarithm = world.call(Call("logarithm", {"value": 10, "base": 3, "precision": 40}))
    root = world.call(Call("square_root", {"number": 2, "precision": 7}))
    assert "2.0959032742893846042965675220214" in logarithm.content
    assert "1.414214" in root.content
    assert (wheel.mpmath.mp.dps, decimal.getcontext().prec) == before
