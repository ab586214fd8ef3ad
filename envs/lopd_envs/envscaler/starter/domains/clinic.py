"""Clinic: visits of patients for treatments."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, extra_after
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Desk = Literal["east", "west"]
CANCEL = Case(("cancel_visit",), {"status": "cancelled"})


class Clinic(World):
    """The reception of a clinic. Changes go over one desk, and may need a note afterwards."""

    name = "clinic"
    place = "You run the reception of a clinic."
    noun = "visit"
    letter = "V"
    lookup = "find_visit"
    person = "patient"
    thing = "part"
    things = words(
        """Ankle Arm Back Chest Ear Elbow Eye Finger Foot Hand Heart Heel Hip Jaw Knee Leg Neck
        Nose Shin Shoulder Skin Throat Thumb Wrist"""
    )
    fields: ClassVar = {"hour": 0}
    goals = (
        GoalKind(
            "shift",
            ("Shift {what} to hour {number}.", "Please shift {what} to hour {number}."),
            {"booked": Case(("shift_visit",), {})},
            number="hour",
            numbers=(7, 21),
        ),
        GoalKind("cancel", ("Cancel {what}.", "Please cancel {what}."), {"booked": CANCEL}),
        GoalKind(
            "admit",
            ("Admit {what}.", "Please admit {what}."),
            {"booked": Case(("admit_visit",), {"status": "admitted"})},
        ),
        GoalKind(
            "cancel or charge",
            (
                "Cancel {what}, or charge it if missed.",
                "Please cancel {what}, or charge it if missed.",
                "If missed charge {what}, else cancel it.",
            ),
            {"booked": CANCEL, "missed": Case(("charge_visit",), {"status": "charged"})},
        ),
    )
    house_rules = (extra_after("file_note"), constant("desk", "east", "west"))
    true_rules = (1, 0)

    @tool
    def find_visit(self, patient: str, part: str) -> Answer:
        """Find a visit."""
        return self.find(patient, part)

    @tool
    def shift_visit(self, id: str, hour: int, desk: Desk) -> Answer:
        """Shift a booked visit."""
        return self.do("shift_visit", id, {"hour": hour}, {"status": "booked"}, desk=desk)

    @tool
    def cancel_visit(self, id: str, desk: Desk) -> Answer:
        """Cancel a booked visit."""
        return self.do("cancel_visit", id, {"status": "cancelled"}, {"status": "booked"}, desk=desk)

    @tool
    def admit_visit(self, id: str, desk: Desk) -> Answer:
        """Admit the patient of a booked visit."""
        return self.do("admit_visit", id, {"status": "admitted"}, {"status": "booked"}, desk=desk)

    @tool
    def charge_visit(self, id: str, desk: Desk) -> Answer:
        """Charge a missed visit."""
        return self.do("charge_visit", id, {"status": "charged"}, {"status": "missed"}, desk=desk)

    @tool
    def file_note(self, id: str) -> Answer:
        """File a note about a visit."""
        return self.do("file_note", id)
