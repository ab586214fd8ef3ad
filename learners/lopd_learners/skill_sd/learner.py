"""The Skill-SD learner: GRPO plus distillation from the student's own skill-conditioned self.

One step: choose a skill for each task, score the student's tokens as the student itself would with
the skill in its prompt, take GRPO's step with the distillation added, and summarise what was
played into skills for later steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.learner import LearnerContext, Metrics
from lopd_learners.distillation import TINY_TEMPLATE
from lopd_learners.forward import TokenRow, base_precision, micro_batches, supervised_states
from lopd_learners.grpo import GRPO, GRPOConfig
from lopd_learners.grpo.sample import Sample, sampled_log_probs
from lopd_learners.losses import weighted_k3
from lopd_learners.rows import Place, privileged_rows
from lopd_learners.skill_sd.skills import SkillBank
from lopd_learners.skill_sd.summarise import Summariser, make_summariser

TEMPLATE = (
    "{message}\n\nSummary of experience from a similar past task:\n{skill}\n"
    "Solve the current task independently."
)


class SkillSDConfig(GRPOConfig):
    """Options of Skill-SD, beside GRPO's.

    Attributes:
        distillation: Weight of the distillation loss (lambda).
        exploration: UCB1's constant (c).
        pool: Whose skills a task may be shown: its own (``task``), or those of any task of its
            ``group``, which is what a stream of tasks that hardly repeat needs.
        most_skills: Skills kept for each key.
        summariser: ``rules``, or ``policy`` for the base model.
        template: What the teacher's message becomes: ``{message}`` is its own content, ``{skill}``
            the skill as JSON, ``{item}`` its workflow below its task's text.
        place: Which message it is, ``system`` or ``user``.
    """

    clip_high: float = Field(0.28, ge=0)
    distillation: float = Field(0.001, ge=0)
    exploration: float = Field(math.sqrt(2), ge=0)
    pool: Literal["task", "group"] = "task"
    most_skills: int = Field(8, ge=1)
    summariser: Literal["rules", "policy"] = "rules"
    template: str = TEMPLATE
    place: Place = "user"


class SkillSD(GRPO):
    """Skill-conditioned self-distillation."""

    name: ClassVar[str] = "skill-sd"
    summary: ClassVar[str] = "GRPO, and distillation from the student with a skill in its prompt."
    paper: ClassVar[str] = "Skill-SD, arXiv 2604.10674"
    config_type: ClassVar[type[SkillSDConfig]] = SkillSDConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "tiny": {
            "template": TINY_TEMPLATE,
            "pool": "group",
            "lr": 1e-3,
            "gradient_checkpointing": False,
        },
    }
    config: SkillSDConfig

    def __init__(self, config: SkillSDConfig, context: LearnerContext) -> None:
        super().__init__(config, context)
        self.skills = SkillBank(config.exploration, config.most_skills)
        self._summarise: Summariser = make_summariser(config.summariser, context.backbone)
        self._teacher_log: dict[int, Tensor] = {}  # id of an episode -> its teacher's [S]

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Take one step, then turn the episodes into skills."""
        tasks: dict[str, list[Episode]] = {}
        for episode in episodes:
            tasks.setdefault(episode.task_id, []).append(episode)
        self._teacher_log = self._teach(self._choose(list(tasks.values())))
        share = len(self._teacher_log) / max(1, len(episodes))
        metrics = super().update(episodes)
        self._teacher_log = {}
        for mine in tasks.values():
            skill = self._summarise(mine)
            if skill is not None:
                self.skills.add(self._key(mine[0]), skill)
        return {**metrics, "context_share": share, "skills": float(len(self.skills))}

    def _key(self, episode: Episode) -> str:
        return episode.task_id if self.config.pool == "task" else episode.group

    def _choose(self, tasks: Sequence[Sequence[Episode]]) -> list[tuple[Episode, TokenRow]]:
        """Choose one skill for each task; returns episodes and their teacher's rows."""
        chosen = []
        for mine in tasks:
            key = self._key(mine[0])
            number = self.skills.choose(key)
            if number is None:
                continue
            scores = [e.outcome.score or 0.0 for e in mine]
            self.skills.credit(key, number, sum(scores) / len(scores))
            shown = self.skills.skill(key, number).shown()
            config = self.config
            for episode in mine:
                _, row = privileged_rows(
                    self._backbone, episode, config.template, config.place, shown, config.max_tokens
                )
                chosen.append((episode, row))
        return chosen

    @torch.no_grad()
    def _teach(self, chosen: Sequence[tuple[Episode, TokenRow]]) -> dict[int, Tensor]:
        """Score sampled tokens as the student, before its step, does with a skill in its prompt."""
        student = self._backbone.student
        found: dict[int, Tensor] = {}
        lengths = [len(row.ids) for _, row in chosen]
        for group in micro_batches(lengths, self.config.micro_batch_tokens):
            part = [chosen[i] for i in group]
            rows = [row for _, row in part]
            temperature = part[0][0].sampling.temperature or 1.0
            with base_precision(self._backbone):
                states = supervised_states(student, rows)
                q_log = sampled_log_probs(student, states, rows, temperature)
            pieces = torch.split(q_log, [int(row.supervised.sum()) for row in rows])
            found |= {id(e): piece for (e, _), piece in zip(part, pieces, strict=True)}
        return found

    def _teaches(self, sample: Sample) -> bool:
        return super()._teaches(sample) or id(sample.episode) in self._teacher_log

    def _distillation(self, part: Sequence[Sample], p_log: Tensor, ratios: Tensor) -> Tensor:
        """Weighted k3 to the teacher at tokens of episodes that were shown a skill, [S]."""
        known = [self._teacher_log.get(id(x.episode)) for x in part]
        q_log = [
            p.detach() if q is None else q
            for p, q in zip(torch.split(p_log, [x.tokens for x in part]), known, strict=True)
        ]
        # Where there is no teacher p = q, and k3 and its gradient are 0.
        return self.config.distillation * weighted_k3(p_log, torch.cat(q_log), ratios)

    def state_dict(self) -> dict[str, Any]:
        """Return GRPO's state and the skills."""
        return {**super().state_dict(), "skills": self.skills.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.skills.load_state_dict(state["skills"])
