"""Calendar: meetings that hosts hold on topics."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, order
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Color = Literal["red", "blue"]


class Calendar(World):
    """A calendar. Rooms are synced once for every change, and changes are marked in one color."""

    name = "calendar"
    place = "You keep the team calendar."
    noun = "meeting"
    letter = "M"
    lookup = "find_meeting"
    person = "host"
    thing = "topic"
    things = words(
        """Budget Design Hiring Launch Pricing Roadmap Safety Sales Strategy Survey Training Travel
        Brand Claims Exports Garden Logo Music Network Parking Privacy Research Taxes Website"""
    )
    fields: ClassVar = {"hour": 0, "minutes": 0}
    goals = (
        GoalKind(
            "move",
            ("Move {what} to hour {number}.", "Please move {what} to hour {number}."),
            {"set": Case(("move_meeting",), {})},
            number="hour",
            numbers=(7, 21),
        ),
        GoalKind(
            "stretch",
            ("Stretch {what} to {number} minutes.", "Let {what} take {number} minutes."),
            {"set": Case(("stretch_meeting",), {})},
            number="minutes",
            numbers=(10, 90),
        ),
        GoalKind(
            "drop",
            ("Drop {what}.", "Please drop {what}."),
            {"set": Case(("drop_meeting",), {"status": "dropped"})},
        ),
        GoalKind(
            "free and move",
            (
                "Move {what} to hour {number}; free it if frozen.",
                "Please move {what} to hour {number}; free it if frozen.",
                "If frozen free {what}, then move it to hour {number}.",
            ),
            {
                "set": Case(("move_meeting",), {}),
                "frozen": Case(("free_meeting", "move_meeting"), {"status": "set"}),
            },
            number="hour",
            numbers=(7, 21),
        ),
    )
    house_rules = (order("sync_rooms"), constant("color", "red", "blue"))
    true_rules = (0, 1)

    @tool
    def find_meeting(self, host: str, topic: str) -> Answer:
        """Find a meeting."""
        return self.find(host, topic)

    @tool
    def free_meeting(self, id: str) -> Answer:
        """Free a meeting that is frozen."""
        return self.do("free_meeting", id, {"status": "set"}, {"status": "frozen"})

    @tool
    def sync_rooms(self, id: str) -> Answer:
        """Sync the rooms of a meeting."""
        return self.do("sync_rooms", id)

    @tool
    def move_meeting(self, id: str, hour: int, color: Color) -> Answer:
        """Move a set meeting."""
        return self.do("move_meeting", id, {"hour": hour}, {"status": "set"}, color=color)

    @tool
    def stretch_meeting(self, id: str, minutes: int, color: Color) -> Answer:
        """Change how long a set meeting takes."""
        return self.do("stretch_meeting", id, {"minutes": minutes}, {"status": "set"}, color=color)

    @tool
    def drop_meeting(self, id: str, color: Color) -> Answer:
        """Drop a set meeting."""
        return self.do("drop_meeting", id, {"status": "dropped"}, {"status": "set"}, color=color)
