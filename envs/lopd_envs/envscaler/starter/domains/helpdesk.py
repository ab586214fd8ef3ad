"""Helpdesk: tickets that users opened about devices."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, either
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Team = Literal["crew", "lead"]
CLOSE = Case(("take_ticket", "close_ticket"), {"taken": True, "status": "closed"})


class Helpdesk(World):
    """A helpdesk. Tickets are taken, acknowledged or locked for one team, and then worked on."""

    name = "helpdesk"
    place = "You work at the helpdesk."
    noun = "ticket"
    letter = "T"
    lookup = "find_ticket"
    person = "user"
    thing = "device"
    things = words(
        """Laptop Printer Router Scanner Tablet Monitor Keyboard Mouse Headset Camera Server Phone
        Modem Speaker Charger Beamer Dongle Drive Switch Watch Radio Plotter Sensor Console"""
    )
    fields: ClassVar = {"taken": False, "rank": 0}
    goals = (
        GoalKind("close", ("Close {what}.", "Please close {what}."), {"open": CLOSE}),
        GoalKind(
            "rank",
            ("Rank {what} at {number}.", "Please rank {what} at {number}."),
            {"open": Case(("take_ticket", "rank_ticket"), {"taken": True})},
            number="rank",
        ),
        GoalKind(
            "close or pass",
            (
                "Close {what}, or pass it on if urgent.",
                "Please close {what}, or pass it on if urgent.",
                "If urgent pass on {what}, else close it.",
            ),
            {
                "open": CLOSE,
                "urgent": Case(("take_ticket", "pass_ticket"), {"taken": True, "status": "passed"}),
            },
        ),
    )
    house_rules = (either("ack_ticket", "lock_ticket"), constant("to", "crew", "lead"))
    true_rules = (1, 1)

    @tool
    def find_ticket(self, user: str, device: str) -> Answer:
        """Find a ticket."""
        return self.find(user, device)

    @tool
    def take_ticket(self, id: str) -> Answer:
        """Take a ticket. Comes before all work on it."""
        return self.do("take_ticket", id, {"taken": True})

    @tool
    def ack_ticket(self, id: str, to: Team) -> Answer:
        """Acknowledge a ticket that was taken."""
        return self.do("ack_ticket", id, needs={"taken": True}, to=to)

    @tool
    def lock_ticket(self, id: str, to: Team) -> Answer:
        """Lock a ticket that was taken."""
        return self.do("lock_ticket", id, needs={"taken": True}, to=to)

    @tool
    def rank_ticket(self, id: str, rank: int) -> Answer:
        """Rank an open ticket that was taken."""
        return self.do("rank_ticket", id, {"rank": rank}, {"taken": True, "status": "open"})

    @tool
    def close_ticket(self, id: str) -> Answer:
        """Close an open ticket that was taken."""
        return self.do("close_ticket", id, {"status": "closed"}, {"taken": True, "status": "open"})

    @tool
    def pass_ticket(self, id: str) -> Answer:
        """Pass on an urgent ticket that was taken."""
        return self.do("pass_ticket", id, {"status": "passed"}, {"taken": True, "status": "urgent"})
