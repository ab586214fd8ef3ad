"""Billing: bills that clients got for services."""

from __future__ import annotations

from typing import ClassVar

from lopd_envs.envscaler.starter.rules import extra_after, extra_before
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

VOID = Case(("void_bill",), {"status": "void"})


class Billing(World):
    """A billing office. Changes may need an audit first, and a stamp afterwards."""

    name = "billing"
    place = "You work in the billing office."
    noun = "bill"
    letter = "B"
    lookup = "find_bill"
    person = "client"
    thing = "service"
    things = words(
        """Backup Catering Cleaning Coaching Courier Delivery Drafting Editing Filming Hosting
        Leasing Mowing Moving Packing Painting Plumbing Printing Roofing Sewing Storage Tuning
        Tutoring Washing Wiring"""
    )
    fields: ClassVar = {"percent": 0, "months": 0}
    goals = (
        GoalKind(
            "reduce",
            ("Reduce {what} by {number} percent.", "Take {number} percent off {what}."),
            {"due": Case(("reduce_bill",), {})},
            number="percent",
        ),
        GoalKind(
            "defer",
            ("Defer {what} by {number} months.", "Please defer {what} by {number} months."),
            {"due": Case(("defer_bill",), {})},
            number="months",
        ),
        GoalKind("void", ("Void {what}.", "Please void {what}."), {"due": VOID}),
        GoalKind(
            "void or repay",
            (
                "Void {what}, or repay it if paid.",
                "Please void {what}, or repay it if paid.",
                "If paid repay {what}, else void it.",
            ),
            {"due": VOID, "paid": Case(("repay_bill",), {"status": "repaid"})},
        ),
    )
    house_rules = (extra_before("audit_bill"), extra_after("stamp_bill"))
    true_rules = (0, 1)

    @tool
    def find_bill(self, client: str, service: str) -> Answer:
        """Find a bill."""
        return self.find(client, service)

    @tool
    def audit_bill(self, id: str) -> Answer:
        """Audit a bill."""
        return self.do("audit_bill", id)

    @tool
    def reduce_bill(self, id: str, percent: int) -> Answer:
        """Reduce a bill that is due."""
        return self.do("reduce_bill", id, {"percent": percent}, {"status": "due"})

    @tool
    def defer_bill(self, id: str, months: int) -> Answer:
        """Defer a bill that is due."""
        return self.do("defer_bill", id, {"months": months}, {"status": "due"})

    @tool
    def void_bill(self, id: str) -> Answer:
        """Void a bill that is due."""
        return self.do("void_bill", id, {"status": "void"}, {"status": "due"})

    @tool
    def repay_bill(self, id: str) -> Answer:
        """Repay a bill that was paid."""
        return self.do("repay_bill", id, {"status": "repaid"}, {"status": "paid"})

    @tool
    def stamp_bill(self, id: str) -> Answer:
        """Stamp a bill."""
        return self.do("stamp_bill", id)
