"""Skills: short summaries of past episodes, and the bandit that chooses which one is shown."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from lopd_gym.bank.trace import item_text


@dataclass(frozen=True, slots=True)
class Skill:
    """What some episodes of a task teach.

    ``worked`` says what went well, ``mistakes`` what went wrong, ``workflow`` what to do, as a
    trace of tool calls; ``instruction`` is the task's text.
    """

    worked: str
    mistakes: str
    workflow: str
    instruction: str

    def shown(self) -> dict[str, str]:
        """Return what a template's names stand for."""
        parts = {"worked": self.worked, "mistakes": self.mistakes, "workflow": self.workflow}
        text = json.dumps(parts, ensure_ascii=False, indent=1)
        return {"skill": text, "item": item_text(self.instruction, self.workflow)}


@dataclass(slots=True)
class _Arm:
    skill: Skill
    shown: int = 0
    total: float = 0.0


@dataclass(slots=True)
class SkillBank:
    """Skills by the key of what they are about; UCB1 (Auer et al. 2002) chooses among them.

    A skill's reward is the mean score of the episodes it was shown for. The student that played
    them never saw the skill, so this is a proxy.
    """

    exploration: float
    most: int
    _arms: dict[str, list[_Arm]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._arms.values()))

    def add(self, key: str, skill: Skill) -> None:
        """Remember a skill; the worst one makes room where there are too many."""
        arms = self._arms.setdefault(key, [])
        if any(arm.skill == skill for arm in arms):
            return
        if len(arms) >= self.most:
            arms.remove(min(arms, key=lambda arm: arm.total / arm.shown if arm.shown else 1.0))
        arms.append(_Arm(skill))

    def choose(self, key: str) -> int | None:
        """Return the number of the skill to show: unseen ones first, ties to the oldest."""
        arms = self._arms.get(key, [])
        if not arms:
            return None
        played = sum(arm.shown for arm in arms)

        def bound(number: int) -> float:
            arm = arms[number]
            if not arm.shown:
                return math.inf
            return arm.total / arm.shown + self.exploration * math.sqrt(
                math.log(played) / arm.shown
            )

        return max(range(len(arms)), key=lambda number: (bound(number), -number))

    def skill(self, key: str, number: int) -> Skill:
        """Return a skill by its number."""
        return self._arms[key][number].skill

    def credit(self, key: str, number: int, score: float) -> None:
        """Note that a skill was shown, and how well the episodes went."""
        arm = self._arms[key][number]
        arm.shown += 1
        arm.total += score

    def state_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {key: [asdict(arm) for arm in arms] for key, arms in self._arms.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._arms = {
            key: [_Arm(Skill(**a["skill"]), a["shown"], a["total"]) for a in arms]
            for key, arms in state.items()
        }
