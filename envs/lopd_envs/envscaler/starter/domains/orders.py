"""Orders: what buyers ordered in a shop."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, extra_before
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Via = Literal["card", "credit"]
CANCEL = Case(("cancel_order",), {"status": "cancelled"})
REFUND = Case(("refund_order",), {"status": "refunded"})


class Orders(World):
    """The order desk of a shop. Every change moves money one way, and may need a lock first."""

    name = "orders"
    place = "You run the order desk of a shop."
    noun = "order"
    letter = "R"
    lookup = "find_order"
    person = "buyer"
    thing = "item"
    things = words(
        """Lamp Chair Desk Rug Sofa Clock Vase Kettle Teapot Mirror Pillow Basket Blanket Candle
        Curtain Drawer Hammock Ladder Mug Napkin Stool Toaster Tray Shelf"""
    )
    fields: ClassVar = {"count": 1}
    goals = (
        GoalKind(
            "resize",
            ("Set {what} to {number} pieces.", "Please change {what} to {number} pieces."),
            {"open": Case(("resize_order",), {})},
            number="count",
        ),
        GoalKind("cancel", ("Cancel {what}.", "Please cancel {what}."), {"open": CANCEL}),
        GoalKind(
            "rush",
            ("Rush {what}.", "Please rush {what}."),
            {"open": Case(("rush_order",), {"status": "rushed"})},
        ),
        GoalKind("refund", ("Refund {what}.", "Please refund {what}."), {"sent": REFUND}),
        GoalKind(
            "cancel or refund",
            (
                "Cancel {what}, or refund it if sent.",
                "Please cancel {what}, or refund it if sent.",
                "If sent refund {what}, else cancel it.",
            ),
            {"open": CANCEL, "sent": REFUND},
        ),
    )
    house_rules = (extra_before("lock_order"), constant("via", "card", "credit"))
    true_rules = (1, 1)

    @tool
    def find_order(self, buyer: str, item: str) -> Answer:
        """Find an order."""
        return self.find(buyer, item)

    @tool
    def lock_order(self, id: str) -> Answer:
        """Lock an order."""
        return self.do("lock_order", id)

    @tool
    def resize_order(self, id: str, count: int, via: Via) -> Answer:
        """Change how many pieces an open order has."""
        return self.do("resize_order", id, {"count": count}, {"status": "open"}, via=via)

    @tool
    def cancel_order(self, id: str, via: Via) -> Answer:
        """Cancel an open order."""
        return self.do("cancel_order", id, {"status": "cancelled"}, {"status": "open"}, via=via)

    @tool
    def refund_order(self, id: str, via: Via) -> Answer:
        """Refund an order that was sent."""
        return self.do("refund_order", id, {"status": "refunded"}, {"status": "sent"}, via=via)

    @tool
    def rush_order(self, id: str, via: Via) -> Answer:
        """Rush an open order."""
        return self.do("rush_order", id, {"status": "rushed"}, {"status": "open"}, via=via)
