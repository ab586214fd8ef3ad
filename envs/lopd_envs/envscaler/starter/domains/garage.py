"""Garage: repairs of cars for their owners. Held out from training."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, order
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Oil = Literal["thin", "thick"]
DROP = Case(("drop_repair",), {"status": "dropped"})


class Garage(World):
    """A garage. The car is driven once for every change, and filled with one sort of oil."""

    name = "garage"
    place = "You run a garage."
    noun = "repair"
    letter = "G"
    lookup = "find_repair"
    person = "owner"
    thing = "car"
    things = words(
        """Badger Bison Cheetah Cobra Condor Coyote Dingo Ferret Gazelle Heron Hornet Jackal Jaguar
        Leopard Lynx Marlin Mustang Osprey Panther Puma Python Stallion Tiger Viper"""
    )
    fields: ClassVar = {"wait": 0, "seats": 0}
    goals = (
        GoalKind(
            "delay",
            ("Delay {what} by {number} days.", "Please delay {what} by {number} days."),
            {"open": Case(("delay_repair",), {})},
            number="wait",
        ),
        GoalKind(
            "refit",
            ("Refit {what} with {number} seats.", "Please refit {what} with {number} seats."),
            {"open": Case(("refit_repair",), {})},
            number="seats",
        ),
        GoalKind("drop", ("Drop {what}.", "Please drop {what}."), {"open": DROP}),
        GoalKind(
            "drop or deliver",
            (
                "Drop {what}, or deliver it if done.",
                "Please drop {what}, or deliver it if done.",
                "If done deliver {what}, else drop it.",
            ),
            {"open": DROP, "done": Case(("deliver_repair",), {"status": "delivered"})},
        ),
    )
    house_rules = (order("drive_car"), constant("oil", "thin", "thick"))
    true_rules = (1, 1)

    @tool
    def find_repair(self, owner: str, car: str) -> Answer:
        """Find a repair."""
        return self.find(owner, car)

    @tool
    def delay_repair(self, id: str, wait: int, oil: Oil) -> Answer:
        """Delay an open repair."""
        return self.do("delay_repair", id, {"wait": wait}, {"status": "open"}, oil=oil)

    @tool
    def refit_repair(self, id: str, seats: int, oil: Oil) -> Answer:
        """Change how many seats the car of an open repair gets."""
        return self.do("refit_repair", id, {"seats": seats}, {"status": "open"}, oil=oil)

    @tool
    def drop_repair(self, id: str, oil: Oil) -> Answer:
        """Drop an open repair."""
        return self.do("drop_repair", id, {"status": "dropped"}, {"status": "open"}, oil=oil)

    @tool
    def deliver_repair(self, id: str, oil: Oil) -> Answer:
        """Deliver a repair that is done."""
        return self.do("deliver_repair", id, {"status": "delivered"}, {"status": "done"}, oil=oil)

    @tool
    def drive_car(self, id: str) -> Answer:
        """Drive the car of a repair."""
        return self.do("drive_car", id)
