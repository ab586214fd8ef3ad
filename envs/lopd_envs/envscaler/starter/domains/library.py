"""Library: loans of titles to members."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, order
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

RETURN = Case(("return_loan",), {"status": "returned"})


class Library(World):
    """The library desk. Members are notified once for every change of a loan."""

    name = "library"
    place = "You work at the library desk."
    noun = "loan"
    letter = "L"
    lookup = "find_loan"
    person = "member"
    thing = "title"
    things = words(
        """Atlas Dunes Embers Falcon Glacier Harbor Island Jungle Kraken Lantern Meadow Nebula
        Oracle Phantom Quartz Raven Saga Tundra Utopia Voyage Winter Yonder Zenith Comet"""
    )
    fields: ClassVar = {"days": 0}
    goals = (
        GoalKind(
            "renew",
            ("Renew {what} for {number} days.", "Please renew {what} for {number} days."),
            {"out": Case(("renew_loan",), {})},
            number="days",
        ),
        GoalKind("return", ("Return {what}.", "Please take back {what}."), {"out": RETURN}),
        GoalKind(
            "pause",
            ("Pause {what}.", "Please pause {what}."),
            {"out": Case(("pause_loan",), {"status": "paused"})},
        ),
        GoalKind(
            "return or bill",
            (
                "Return {what}, or bill it if lost.",
                "Please return {what}, or bill it if lost.",
                "If lost bill {what}, else return it.",
            ),
            {"out": RETURN, "lost": Case(("bill_loan",), {"status": "billed"})},
        ),
    )
    house_rules = (order("notify_member"), constant("by", "mail", "phone"))
    true_rules = (1, 0)

    @tool
    def find_loan(self, member: str, title: str) -> Answer:
        """Find a loan."""
        return self.find(member, title)

    @tool
    def renew_loan(self, id: str, days: int) -> Answer:
        """Renew a loan that is out."""
        return self.do("renew_loan", id, {"days": days}, {"status": "out"})

    @tool
    def return_loan(self, id: str) -> Answer:
        """Take back a loan that is out."""
        return self.do("return_loan", id, {"status": "returned"}, {"status": "out"})

    @tool
    def pause_loan(self, id: str) -> Answer:
        """Pause a loan that is out."""
        return self.do("pause_loan", id, {"status": "paused"}, {"status": "out"})

    @tool
    def bill_loan(self, id: str) -> Answer:
        """Bill a loan that is lost."""
        return self.do("bill_loan", id, {"status": "billed"}, {"status": "lost"})

    @tool
    def notify_member(self, id: str, by: Literal["mail", "phone"]) -> Answer:
        """Notify the member about a loan."""
        return self.do("notify_member", id, by=by)
