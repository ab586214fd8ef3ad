"""The teacher as a policy, for evaluating it: the base model with latents in its prompt."""

from __future__ import annotations

from dataclasses import replace

import torch

from lopd_gym.env import episode_seed
from lopd_gym.episode import Sampling
from lopd_gym.messages import ToolSpec
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Prompt
from lopd_gym.policy.model_policy import ModelPolicy, task_prompt
from lopd_gym.tasks import Task
from lopd_learners.lopd.composer import Composer
from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.lopd.memory import Retriever, teacher_prompt


class TeacherPolicy(ModelPolicy):
    """Plays with the base weights and a memory of retrieved experiences.

    ``other_group`` shows it experiences of other groups, as a control.
    """

    def __init__(
        self,
        backbone: Backbone,
        composer: Composer,
        retriever: Retriever,
        config: LOPDConfig,
        sampling: Sampling,
        other_group: bool,
        max_new_tokens: int,
        max_context_tokens: int,
    ) -> None:
        def prompt(task: Task, tools: tuple[ToolSpec, ...]) -> Prompt:
            if other_group:
                seed = episode_seed(0, "other group", task.id)
                items = retriever.of_other_group(task.group, seed)
            else:
                items = retriever.find(task.instruction, task.id)
            if not items:
                return task_prompt(backbone, task, tools)
            with torch.no_grad():
                (latents,) = composer.memories([(task.instruction, items)])
            whole, _ = teacher_prompt(backbone, task.messages, tools, len(latents), config)
            return replace(whole, latents=latents)

        super().__init__(
            backbone,
            weights="base",
            sampling=sampling,
            max_new_tokens=max_new_tokens,
            max_context_tokens=max_context_tokens,
            make_prompt=prompt,
        )
