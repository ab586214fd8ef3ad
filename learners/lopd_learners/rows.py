"""Episodes as token rows, the student's and a teacher's.

A teacher sees a re-rendered prefix, with privileged text in it, followed by exactly the ids that
the student saw and sampled; nothing after the prefix is ever rendered or tokenised again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from lopd_gym.episode import Episode
from lopd_gym.messages import Message
from lopd_gym.policy.backbone import Backbone
from lopd_learners.forward import TokenRow, log_probs_at

Place = Literal["system", "user"]
"""Which message takes the privileged text: the first of this role."""


def student_row(episode: Episode, max_tokens: int) -> TokenRow:
    """Return an episode as the student sees it, cut off after ``max_tokens``."""
    return TokenRow(episode.token_ids[:max_tokens], episode.loss_mask[:max_tokens])


def recorded_log_probs(episode: Episode, row: TokenRow) -> Tensor:
    """Return what the sampler recorded of a row's supervised tokens, [S]."""
    return torch.from_numpy(episode.logprobs[: len(row.ids)][row.supervised])


def temperature_of(episode: Episode) -> float:
    """Return the temperature that an episode was drawn at; a greedy one is taken as drawn at 1."""
    return episode.sampling.temperature or 1.0


def sampled_log_probs(
    model: Any, states: Tensor, rows: Sequence[TokenRow], temperature: float = 1.0
) -> Tensor:
    """Return log-probabilities of the rows' supervised tokens at a temperature, [S]."""
    sampled = torch.cat([row.targets for row in rows]).to(states.device)
    return log_probs_at(model, states, sampled[:, None], temperature=temperature)[:, 0]


def spliced_rows(
    episode: Episode, prefix_ids: Sequence[int], max_tokens: int, *, latent_start: int = 0
) -> tuple[TokenRow, TokenRow]:
    """Return the student's row and that of a teacher with another prefix.

    Both supervise the same sampled tokens: what ``max_tokens`` cuts off the student's row is cut
    off the teacher's too.
    """
    student = student_row(episode, max_tokens)
    suffix = slice(episode.prefix_len, max_tokens)
    teacher = TokenRow(
        ids=np.concatenate([np.asarray(prefix_ids, np.int32), episode.token_ids[suffix]]),
        supervised=np.concatenate([np.zeros(len(prefix_ids), bool), episode.loss_mask[suffix]]),
        latent_start=latent_start,
    )
    same = np.array_equal(student.ids[student.supervised], teacher.ids[teacher.supervised])
    assert same, f"teacher and student disagree on the sampled tokens of {episode.task_id}"
    return student, teacher


def privileged_rows(
    backbone: Backbone,
    episode: Episode,
    template: str,
    place: Place,
    values: Mapping[str, str],
    max_tokens: int,
) -> tuple[TokenRow, TokenRow]:
    """Return the student's row, and the teacher's with privileged text in one message.

    Args:
        backbone: Whose chat format renders the teacher's prefix.
        episode: What the student played.
        template: What the message becomes; ``{message}`` stands for its own content.
        place: Which message: the first of this role, or the first user message where none is.
        values: What else the template's names stand for.
        max_tokens: Longer episodes are cut off here.
    """
    opening = list(episode.opening)
    roles = [message.role for message in opening]
    index = roles.index(place if place in roles else "user")
    content = fill(template, {**values, "message": opening[index].content})
    opening[index] = Message(opening[index].role, content)
    prefix, _ = backbone.chat.opening(opening, episode.tools)
    return spliced_rows(episode, backbone.encode(prefix), max_tokens)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value; braces of any other kind, and in values, stay."""
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda found: values[found[1]], template)
