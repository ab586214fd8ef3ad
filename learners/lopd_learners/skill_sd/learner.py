"""The Skill-SD learner: GRPO plus distillation from the student's own skill-conditioned self.

One step: choose a skill for each task, score the student's tokens as the student itself would with
the skill in its prompt, take GRPO's step with the distillation added, and summarise what was
played into skills for later steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.learner import LearnerContext, Metrics, TokenView
from lopd_learners.distillation import TINY_TEMPLATE
from lopd_learners.forward import (
    TokenRow,
    base_precision,
    micro_batches,
    supervised_states,
    target_log_probs,
)
from lopd_learners.grpo import GRPO, GRPOConfig
from lopd_learners.grpo.sample import Sample, split
from lopd_learners.losses import weighted_k3
from lopd_learners.rows import Place, privileged_rows, sampled_log_probs, temperature_of
from lopd_learners.skill_sd.skills import Skill, SkillBank
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
        summariser: ``rules``, ``policy`` for the base model, or ``openai:MODEL`` for a model
            behind an endpoint, whose answers make a run not repeatable.
        summariser_url: That endpoint's address, like ``http://localhost:8000/v1``.
        template: What the teacher's message becomes: ``{message}`` is its own content, ``{skill}``
            the skill as JSON, ``{item}`` its workflow below its task's text.
        place: Which message it is, ``system`` or ``user``.
    """

    clip_high: float = Field(0.28, ge=0)
    distillation: float = Field(0.001, ge=0)
    exploration: float = Field(math.sqrt(2), ge=0)
    pool: Literal["task", "group"] = "task"
    most_skills: int = Field(8, ge=1)
    summariser: str = "rules"
    summariser_url: str | None = None
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
        self._summarise: Summariser = make_summariser(
            config.summariser, config.summariser_url, context.backbone
        )

    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Take one step, then turn the episodes into skills."""
        metrics = super().update(episodes)
        for mine in _by_task(episodes):
            skill = self._summarise(mine)
            if skill is not None:
                self.skills.add(self._key(mine[0]), skill)
        return {**metrics, "skills": float(len(self.skills))}

    def _samples(self, episodes: Sequence[Episode]) -> list[Sample]:
        """Make a step's samples, with a teacher where there is a skill to show."""
        samples = super()._samples(episodes)
        shown = self._choose(episodes)
        self._teach([x for x in samples if x.episode.task_id in shown], shown)
        return samples

    def _describe(self, samples: Sequence[Sample]) -> Metrics:
        taught = sum(x.teacher_log is not None for x in samples)
        return {**super()._describe(samples), "context_share": taught / max(1, len(samples))}

    def _key(self, episode: Episode) -> str:
        return episode.task_id if self.config.pool == "task" else episode.group

    def _choose(self, episodes: Sequence[Episode]) -> dict[str, Skill]:
        """Choose one skill for each task that has any, and note how well its episodes went."""
        chosen = {}
        for mine in _by_task(episodes):
            key = self._key(mine[0])
            number = self.skills.choose(key)
            if number is not None:
                scores = [e.outcome.score or 0.0 for e in mine]
                self.skills.credit(key, number, sum(scores) / len(scores))
                chosen[mine[0].task_id] = self.skills.skill(key, number)
        return chosen

    @torch.no_grad()
    def _teach(self, samples: Sequence[Sample], shown: Mapping[str, Skill]) -> None:
        """Note how the student, before its step, scores its tokens with a skill in its prompt."""
        config, student = self.config, self._backbone.student
        rows = [self._rows(x.episode, shown[x.episode.task_id].shown())[1] for x in samples]
        for group in micro_batches([len(row.ids) for row in rows], config.micro_batch_tokens):
            part, mine = [samples[i] for i in group], [rows[i] for i in group]
            with base_precision(self._backbone):
                states = supervised_states(student, mine)
                q_log = sampled_log_probs(student, states, mine, temperature_of(part[0].episode))
            for x, piece in zip(part, split(q_log, part), strict=True):
                x.teacher_log = piece

    def _rows(self, episode: Episode, values: Mapping[str, str]) -> tuple[TokenRow, TokenRow]:
        """Return the student's row and that of the teacher, who is shown a skill."""
        config = self.config
        return privileged_rows(
            self._backbone, episode, config.template, config.place, values, config.max_tokens
        )

    def token_view(self, episode: Episode, step: Sequence[Episode]) -> TokenView | None:
        """Compare the student with itself when it is shown the skill that the step would choose."""
        key = self._key(episode)
        number = self.skills.choose(key)
        if number is None:
            return None
        values = self.skills.skill(key, number).shown()
        row, teacher_row = self._rows(episode, values)
        if not row.supervised.any():
            return None
        with base_precision(self._backbone):
            return TokenView(
                positions=np.flatnonzero(row.supervised),
                teacher=target_log_probs(self._backbone.student, teacher_row),
                student=target_log_probs(self._backbone.student, row),
                context="\n\n".join(
                    v for n, v in values.items() if f"{{{n}}}" in self.config.template
                ),
            )

    def _distillation(self, part: Sequence[Sample], p_log: Tensor, ratios: Tensor) -> Tensor:
        """Weighted k3 to the teacher at tokens of episodes that were shown a skill, [S]."""
        # Where there is no teacher q = p, and k3 and its gradient are 0.
        q_log = [
            mine if x.teacher_log is None else x.teacher_log.to(mine)
            for x, mine in zip(part, split(p_log.detach(), part), strict=True)
        ]
        return self.config.distillation * weighted_k3(p_log, torch.cat(q_log), ratios)

    def state_dict(self) -> dict[str, Any]:
        """Return GRPO's state and the skills."""
        return {**super().state_dict(), "skills": self.skills.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.skills.load_state_dict(state["skills"])


def _by_task(episodes: Sequence[Episode]) -> list[list[Episode]]:
    """Group the episodes that did not fail by their task."""
    tasks: dict[str, list[Episode]] = {}
    for episode in episodes:
        if not episode.failed:
            tasks.setdefault(episode.task_id, []).append(episode)
    return list(tasks.values())
