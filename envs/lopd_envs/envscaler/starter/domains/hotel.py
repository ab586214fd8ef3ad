"""Hotel: stays of guests in rooms."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, order
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool


class Hotel(World):
    """The front desk of a hotel. A key is cut once for every change, of one kind."""

    name = "hotel"
    place = "You run the front desk of a hotel."
    noun = "stay"
    letter = "S"
    lookup = "find_stay"
    person = "guest"
    thing = "room"
    things = words(
        """Acacia Aster Begonia Cedar Clover Dahlia Fern Fuchsia Hazel Iris Jasmine Laurel Lilac
        Lotus Magnolia Maple Myrtle Orchid Palm Peony Poppy Rose Tulip Willow"""
    )
    fields: ClassVar = {"nights": 1, "grade": 0}
    goals = (
        GoalKind(
            "extend",
            ("Extend {what} to {number} nights.", "Please make {what} last {number} nights."),
            {"active": Case(("extend_stay",), {})},
            number="nights",
        ),
        GoalKind(
            "upgrade",
            ("Upgrade {what} to grade {number}.", "Please raise {what} to grade {number}."),
            {"active": Case(("upgrade_stay",), {})},
            number="grade",
        ),
        GoalKind(
            "end",
            ("End {what}.", "Please end {what}."),
            {"active": Case(("end_stay",), {"status": "ended"})},
        ),
        GoalKind(
            "wake and extend",
            (
                "Extend {what} to {number} nights; wake it if dormant.",
                "Please extend {what} to {number} nights; wake it if dormant.",
                "If dormant wake {what}, then extend it to {number} nights.",
            ),
            {
                "active": Case(("extend_stay",), {}),
                "dormant": Case(("wake_stay", "extend_stay"), {"status": "active"}),
            },
            number="nights",
        ),
    )
    house_rules = (order("cut_key"), constant("kind", "metal", "plastic"))
    true_rules = (0, 0)

    @tool
    def find_stay(self, guest: str, room: str) -> Answer:
        """Find a stay."""
        return self.find(guest, room)

    @tool
    def wake_stay(self, id: str) -> Answer:
        """Wake a dormant stay."""
        return self.do("wake_stay", id, {"status": "active"}, {"status": "dormant"})

    @tool
    def cut_key(self, id: str, kind: Literal["metal", "plastic"]) -> Answer:
        """Cut a key for a stay."""
        return self.do("cut_key", id, kind=kind)

    @tool
    def extend_stay(self, id: str, nights: int) -> Answer:
        """Change how long an active stay lasts."""
        return self.do("extend_stay", id, {"nights": nights}, {"status": "active"})

    @tool
    def upgrade_stay(self, id: str, grade: int) -> Answer:
        """Change the grade of an active stay."""
        return self.do("upgrade_stay", id, {"grade": grade}, {"status": "active"})

    @tool
    def end_stay(self, id: str) -> Answer:
        """End an active stay."""
        return self.do("end_stay", id, {"status": "ended"}, {"status": "active"})
