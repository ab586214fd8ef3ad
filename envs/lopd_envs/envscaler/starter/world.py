"""`World`: the shared half of every starter domain.

A domain is a class whose tools read and change records: plain dictionaries, each found by an id,
or by a person's name together with the name of a thing. This file keeps the records, carries calls
out, logs them and flags broken house rules. What tools, goals and rules there are is said in
`domains/`; how tasks are drawn and judged in `generate.py` and `play.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from lopd_envs.envscaler.starter.rules import Habit, HouseRule, LogEntry, Options
from lopd_gym.messages import ToolSpec
from lopd_gym.tools import MethodTools, compact_json

Record = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """What a goal means for a record in a certain status.

    Attributes:
        tools: The calls to make, the last of them the change that the house rules are about.
        result: The fields of the record that must have changed, beside the goal's number.
    """

    tools: tuple[str, ...]
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GoalKind:
    """A kind of wish that a task can state.

    Attributes:
        name: What it is called in check names.
        texts: Paraphrases, with ``{what}`` for the record and ``{number}`` for the number.
        cases: The case for each status of the record; more than one makes it a decision.
        number: The parameter, and field of the record, that takes the goal's number; "" for none.
        numbers: The lowest and the highest number.
    """

    name: str
    texts: tuple[str, ...]
    cases: Mapping[str, Case]
    number: str = ""
    numbers: tuple[int, int] = (2, 29)

    @property
    def is_decision(self) -> bool:
        """Whether the record's status decides what has to be done."""
        return len(self.cases) > 1


class World:
    """Base of all domains: a plain object with JSON-serialisable state.

    Attributes:
        name: The domain's name.
        place: The system message: one line that says where the agent works.
        noun: What one record is called.
        letter: The first letter of all ids.
        lookup: The tool that finds a record; its parameters are ``person`` and ``thing``.
        person: The field (and parameter) that holds a person's name.
        thing: The field (and parameter) that holds the name of a thing.
        things: The names that things can have.
        fields: The fields of a fresh record beside person, thing and status.
        goals: The kinds of goals.
        house_rules: The two house rules, as pairs of habits.
        true_rules: The options that really hold in this domain.
        state: ``records`` by id; ``log`` and ``flags`` by the id of the record that was touched.
    """

    name: ClassVar[str]
    place: ClassVar[str]
    noun: ClassVar[str]
    letter: ClassVar[str]
    lookup: ClassVar[str]
    person: ClassVar[str]
    thing: ClassVar[str]
    things: ClassVar[tuple[str, ...]]
    fields: ClassVar[Mapping[str, Any]]
    goals: ClassVar[tuple[GoalKind, ...]]
    house_rules: ClassVar[tuple[HouseRule, HouseRule]]
    true_rules: ClassVar[Options]

    def __init__(self, state: Mapping[str, Any], rules: Options) -> None:
        records = {key: dict(record) for key, record in state["records"].items()}
        self.state: dict[str, Any] = {"records": records, "log": {}, "flags": {}}
        self.habits = self.habits_of(rules)

    @classmethod
    def habits_of(cls, rules: Options) -> tuple[Habit, Habit]:
        """Return the habits that hold under the given options."""
        first, second = cls.house_rules
        return first[rules[0]], second[rules[1]]

    @classmethod
    @cache
    def specs(cls) -> tuple[ToolSpec, ...]:
        """Return the domain's tools, in the order in which they are shown."""
        return MethodTools(cls({"records": {}}, cls.true_rules)).specs()

    @classmethod
    @cache
    def parameters(cls, tool: str) -> tuple[str, ...]:
        """Return the names of a tool's parameters, in order."""
        return next(tuple(s.parameters["properties"]) for s in cls.specs() if s.name == tool)

    @classmethod
    @cache
    def changes(cls) -> frozenset[str]:
        """Return the tools that house rules are about: the last ones of all cases."""
        return frozenset(case.tools[-1] for kind in cls.goals for case in kind.cases.values())

    def find(self, person: str, thing: str) -> Answer:
        """Answer a lookup with id and status of the one record that matches."""
        for key, record in self.state["records"].items():
            if record[self.person] == person and record[self.thing] == thing:
                return {"id": key, "status": record["status"]}
        return {"error": "not found"}

    def do(
        self,
        tool: str,
        id: str,
        sets: Mapping[str, Any] | None = None,
        needs: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Answer:
        """Carry out a call on one record, unless the record does not allow it.

        A call that breaks a house rule is carried out as well, but flags the record, and the
        answer names the rule: the goal can then no longer be reached in full.

        Args:
            tool: The name of the tool that was called.
            id: The record's id.
            sets: The fields to change.
            needs: What fields must hold for the call to be allowed.
            **arguments: The arguments that house rules look at.
        """
        record = self.state["records"].get(id)
        if record is None:
            return {"error": "unknown id"}
        for field, value in (needs or {}).items():
            if record[field] != value:
                return {"error": f"{field} must be {_plain(value)}"}
        record.update(sets or {})
        broken = self._note(id, (tool, arguments))
        if broken:
            return {"status": "flagged", "error": f"house rule: {'; '.join(broken)}"}
        return {"ok": True}

    def _note(self, id: str, entry: LogEntry) -> list[str]:
        """Log a call, flag the house rules that it breaks and return them in words."""
        log = self.state["log"].setdefault(id, [])
        earlier = {tool for tool, _ in log}
        is_change = entry[0] in self.changes()
        changed = not earlier.isdisjoint(self.changes())
        log.append(list(entry))
        broken = []
        for number, habit in enumerate(self.habits):
            if habit.broken_by(entry, earlier, is_change, changed):
                self.state["flags"].setdefault(id, []).append(number)
                broken.append(habit.words)
        return broken

    def kept(self, id: str, number: int) -> bool:
        """Whether a house rule (0 or 1) was kept on a record: not broken, and nothing left out."""
        log = self.state["log"].get(id, [])
        return number not in self.state["flags"].get(id, []) and self.habits[number].complete(log)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)
