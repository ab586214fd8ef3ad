"""What the teacher sees beside the student: retrieved experiences, and where latents go.

The teacher's tokens are a re-rendered prefix, with placeholders for the latents in its first user
message, followed by exactly the ids that the student saw and sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lopd_gym.bank import Bank, Experience
from lopd_gym.episode import Episode
from lopd_gym.errors import UsageError
from lopd_gym.messages import Message, ToolSpec
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Prompt
from lopd_gym.tasks import TRAIN_SPLIT
from lopd_learners.forward import TokenRow
from lopd_learners.lopd.config import LOPDConfig
from lopd_learners.rows import spliced_rows

_SENTINEL = "\ue000latents\ue000"
"""Stands where the latents go while a prompt is rendered; from the private-use area."""


class Retriever:
    """Finds the experiences of a task in the bank."""

    def __init__(self, bank: Bank, config: LOPDConfig) -> None:
        self._bank, self._config = bank, config

    def find(
        self, instruction: str, task_id: str, env: str | None = None
    ) -> tuple[Experience, ...]:
        """Return the nearest experiences, the task's own only where the config allows it.

        ``env`` keeps to experiences of the environment with this label.
        """
        own = self._config.self_retrieval
        hits = self._bank.search(
            instruction,
            self._config.items,
            env=env,
            split=TRAIN_SPLIT,
            exclude_task=None if own else task_id,
            allow_same_instruction=own,
        )
        return tuple(hit.experience for hit in hits)

    def of_other_group(self, group: str, seed: int) -> tuple[Experience, ...]:
        """Return random experiences of any other group: a control, they should not help."""
        others = [experience for experience in self._bank if experience.group != group]
        if not others:
            raise UsageError(f"The bank holds no experience of another group than '{group}'.")
        count = min(self._config.items, len(others))
        chosen = np.random.default_rng(seed).choice(len(others), count, replace=False)
        return tuple(others[index] for index in chosen)


def teacher_prompt(
    backbone: Backbone,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    latents: int,
    config: LOPDConfig,
) -> tuple[Prompt, Prompt]:
    """Render the opening with placeholders for latents.

    Returns:
        The whole prompt, and the prompt of the prefix alone (up to the end of the first user
        message), both without latents in them yet.
    """
    first = next(i for i, m in enumerate(messages) if m.role == "user")
    framed = f"{config.framing_before}{_SENTINEL}{config.framing_after}{messages[first].content}"
    shown = [*messages[:first], Message("user", framed), *messages[first + 1 :]]
    prefix, rest = backbone.chat.opening(shown, tools)
    parts = prefix.split(_SENTINEL)
    if len(parts) != 2:
        raise UsageError(
            f"The chat format must show the first user message exactly once for latents to be "
            f"placed in it; '{backbone.chat.name}' shows it {len(parts) - 1} times."
        )
    before, after = (backbone.encode(part) for part in parts)
    placeholder = _placeholder(backbone)
    ids = before + [placeholder] * latents + after
    alone = Prompt(ids, len(ids), None, len(before))
    return replace(alone, ids=ids + backbone.encode(rest)), alone


def teacher_row(
    backbone: Backbone, episode: Episode, latents: int, config: LOPDConfig
) -> tuple[TokenRow, TokenRow]:
    """Return the student's row of an episode and the teacher's, without latents in it yet."""
    _, prefix = teacher_prompt(backbone, episode.opening, episode.tools, latents, config)
    return spliced_rows(episode, prefix.ids, config.max_tokens, latent_start=prefix.latent_start)


def _placeholder(backbone: Backbone) -> int:
    tokenizer = backbone.tokenizer
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, 0)
    return next(int(i) for i in ids if i is not None)
