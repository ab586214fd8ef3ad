"""School: entries of pupils in courses. Held out from training."""

from __future__ import annotations

from typing import ClassVar, Literal

from lopd_envs.envscaler.starter.rules import constant, extra_before
from lopd_envs.envscaler.starter.words import words
from lopd_envs.envscaler.starter.world import Answer, Case, GoalKind, World
from lopd_gym.tools import tool

Ink = Literal["green", "black"]


class School(World):
    """A school office. Changes are written in one ink, and may need a signature first."""

    name = "school"
    place = "You run the office of a school."
    noun = "entry"
    letter = "E"
    lookup = "find_entry"
    person = "pupil"
    thing = "course"
    things = words(
        """Algebra Art Biology Chemistry Chess Choir Civics Cooking Dance Drama French German
        Grammar Greek History Latin Logic Physics Poetry Pottery Rowing Spanish Theater Yoga"""
    )
    fields: ClassVar = {"points": 0, "row": 0}
    goals = (
        GoalKind(
            "grade",
            ("Grade {what} with {number} points.", "Give {what} {number} points."),
            {"valid": Case(("grade_entry",), {})},
            number="points",
        ),
        GoalKind(
            "seat",
            ("Seat {what} in row {number}.", "Please seat {what} in row {number}."),
            {"valid": Case(("seat_entry",), {})},
            number="row",
        ),
        GoalKind(
            "erase",
            ("Erase {what}.", "Please erase {what}."),
            {"valid": Case(("erase_entry",), {"status": "erased"})},
        ),
        GoalKind(
            "unseal and grade",
            (
                "Grade {what} with {number} points; unseal it if sealed.",
                "Please grade {what} with {number} points; unseal it if sealed.",
                "If sealed unseal {what}, then grade it with {number} points.",
            ),
            {
                "valid": Case(("grade_entry",), {}),
                "sealed": Case(("unseal_entry", "grade_entry"), {"status": "valid"}),
            },
            number="points",
        ),
    )
    house_rules = (extra_before("sign_entry"), constant("ink", "green", "black"))
    true_rules = (1, 0)

    @tool
    def find_entry(self, pupil: str, course: str) -> Answer:
        """Find an entry."""
        return self.find(pupil, course)

    @tool
    def unseal_entry(self, id: str) -> Answer:
        """Unseal an entry that is sealed."""
        return self.do("unseal_entry", id, {"status": "valid"}, {"status": "sealed"})

    @tool
    def sign_entry(self, id: str) -> Answer:
        """Sign an entry."""
        return self.do("sign_entry", id)

    @tool
    def grade_entry(self, id: str, points: int, ink: Ink) -> Answer:
        """Grade a valid entry."""
        return self.do("grade_entry", id, {"points": points}, {"status": "valid"}, ink=ink)

    @tool
    def seat_entry(self, id: str, row: int, ink: Ink) -> Answer:
        """Give the pupil of a valid entry a row."""
        return self.do("seat_entry", id, {"row": row}, {"status": "valid"}, ink=ink)

    @tool
    def erase_entry(self, id: str, ink: Ink) -> Answer:
        """Erase a valid entry."""
        return self.do("erase_entry", id, {"status": "erased"}, {"status": "valid"}, ink=ink)
