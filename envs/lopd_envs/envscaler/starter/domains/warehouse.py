"""Warehouse: lots of goods that clerks look after."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, either
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Route = Literal["road", "rail"]
PICKED = {"picked": True}
SHIP = Case(("pick_lot", "ship_lot"), {**PICKED, "status": "shipped"})


class Warehouse(World):
    """A warehouse. A lot is picked, packed in one of two ways, and leaves by one route."""

    name = "warehouse"
    place = "You work in a warehouse."
    noun = "lot"
    letter = "P"
    lookup = "find_lot"
    person = "clerk"
    thing = "goods"
    things = words(
        """Bolts Bricks Cables Cement Copper Cotton Fuses Gears Glass Gravel Hinges Leather Lumber
        Nails Paint Paper Pipes Pumps Rope Rubber Screws Steel Tiles Valves"""
    )
    fields: ClassVar = {"picked": False, "bay": 0}
    goals = (
        GoalKind("ship", ("Ship {what}.", "Please ship {what}."), {"ready": SHIP}),
        GoalKind(
            "store",
            ("Store {what} in bay {number}.", "Please store {what} in bay {number}."),
            {"ready": Case(("pick_lot", "store_lot"), {**PICKED, "status": "stored"})},
            number="bay",
        ),
        GoalKind(
            "ship or scrap",
            (
                "Ship {what}, or scrap it if broken.",
                "Please ship {what}, or scrap it if broken.",
                "If broken scrap {what}, else ship it.",
            ),
            {
                "ready": SHIP,
                "broken": Case(("pick_lot", "scrap_lot"), {**PICKED, "status": "scrapped"}),
            },
        ),
    )
    house_rules = (either("box_lot", "crate_lot"), constant("route", "road", "rail"))
    true_rules = (0, 1)

    @tool
    def find_lot(self, clerk: str, goods: str) -> Answer:
        """Find a lot."""
        return self.find(clerk, goods)

    @tool
    def pick_lot(self, id: str) -> Answer:
        """Pick a lot. Comes before all work on it."""
        return self.do("pick_lot", id, PICKED)

    @tool
    def box_lot(self, id: str) -> Answer:
        """Pack a picked lot in a box."""
        return self.do("box_lot", id, needs=PICKED)

    @tool
    def crate_lot(self, id: str) -> Answer:
        """Pack a picked lot in a crate."""
        return self.do("crate_lot", id, needs=PICKED)

    @tool
    def ship_lot(self, id: str, route: Route) -> Answer:
        """Ship a ready lot that was picked."""
        needs = {**PICKED, "status": "ready"}
        return self.do("ship_lot", id, {"status": "shipped"}, needs, route=route)

    @tool
    def store_lot(self, id: str, bay: int, route: Route) -> Answer:
        """Store a ready lot that was picked."""
        needs = {**PICKED, "status": "ready"}
        return self.do("store_lot", id, {"status": "stored", "bay": bay}, needs, route=route)

    @tool
    def scrap_lot(self, id: str, route: Route) -> Answer:
        """Scrap a broken lot that was picked."""
        needs = {**PICKED, "status": "broken"}
        return self.do("scrap_lot", id, {"status": "scrapped"}, needs, route=route)
