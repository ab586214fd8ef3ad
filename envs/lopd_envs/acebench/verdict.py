"""What an episode came to: the official and the strict verdict, and the numbers beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lopd_envs.acebench.corpus import Row
from lopd_envs.acebench.notation import Call, read_answer, refusal, write_calls
from lopd_envs.acebench.scoring import agent, normal_official, normal_strict, special
from lopd_gym.messages import AssistantMessage


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong officially and strictly (None: nothing), and further measures."""

    official: str | None
    strict: str | None
    more: dict[str, float] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, float]:
        """Both verdicts as 0 or 1, and the further measures."""
        faults = {"official": self.official, "strict": self.strict}
        return {name: float(fault is None) for name, fault in faults.items()} | self.more


def agent_verdict(row: Row, states: Sequence[agent.State], trace: Sequence[str]) -> Verdict:
    """Judge the end state of an agent episode.

    ``process`` is the process accuracy: 1 where the official end state is reached, else the share
    of milestones in what was sent to the apps.
    """
    official = "; ".join(agent.official_faults(states, row.truth)) or None
    strict = "; ".join(agent.strict_faults(states, row.truth)) or None
    process = agent.process_score(trace, row.milestones) if official else 1.0
    return Verdict(official, strict, {"process": process})


def reply_verdict(row: Row, reply: AssistantMessage) -> Verdict:
    """Judge the reply to a normal or special task; structured calls are read as if written."""
    text = write_calls(reply.tool_calls) if reply.tool_calls else reply.text
    if row.kind == "special":
        official = special.official_fault(row.category, text, row.truth)
        return Verdict(official, special.strict_fault(row.category, text, row.truth))
    calls: list[Call] = [(call.name, dict(call.arguments)) for call in reply.tool_calls]
    strict, complete = _strict(row, calls, text)
    measures = {"strict, nothing left out": float(strict is None and complete)}
    return Verdict(_official(row, text), strict, measures)


def _official(row: Row, text: str) -> str | None:
    """Judge calls as upstream does; in dialogues it drops all white space before it reads them."""
    try:
        calls = read_answer(text, squeeze="multi_turn" in row.category)
    except ValueError as err:
        return str(err)
    return normal_official.official_fault(row.fields["function"], calls, row.truth)


def _strict(row: Row, calls: list[Call], text: str) -> tuple[str | None, bool]:
    try:
        calls = calls or read_answer(text, squeeze=False)
    except ValueError as err:
        return str(err), False
    for _, arguments in calls:
        if (reason := refusal(arguments)) is not None:
            return reason, False
    return normal_strict.strict_fault(row.fields["function"], calls, row.truth)
