"""`Experience`: what a bank remembers of one successful episode.

It holds text only. Where it is kept is the business of `lopd_gym.bank.store`, and how it is found
that of `lopd_gym.bank.bank`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

from lopd_gym.bank.trace import item_text, write_trace
from lopd_gym.episode import Episode

MIN_SCORE = 0.8
"""The score from which an episode counts as worth remembering."""


@dataclass(frozen=True, slots=True)
class Experience:
    """The task text and the compact action-result trace of one successful episode.

    ``env`` is the label of the environment, ``score`` the episode's outcome in [0, 1] and
    ``policy_version`` the version of the policy that played it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    env: str
    split: str
    task_id: str
    group: str
    instruction: str
    trace: str
    score: Annotated[float, Field(ge=0.0, le=1.0)]
    policy_version: int = 0

    @property
    def id(self) -> str:
        """A hash of the content: the same trace of the same task is the same experience."""
        content = [self.env, self.split, self.task_id, self.instruction, self.trace]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]

    @property
    def text(self) -> str:
        """The experience as a reader sees it: task, header, numbered steps."""
        return item_text(self.instruction, self.trace)


def experience_from(episode: Episode, min_score: float = MIN_SCORE) -> Experience | None:
    """Return what is worth remembering of an episode, or None.

    None when infrastructure failed, when the score is below ``min_score``, or when no call was
    executed, so that there is nothing to tell.
    """
    score = episode.outcome.score
    if score is None or score < min_score or not episode.actions:
        return None
    return Experience(
        env=episode.env,
        split=episode.split,
        task_id=episode.task_id,
        group=episode.group,
        instruction=storable(episode.instruction),
        trace=storable(write_trace(episode.actions)),
        score=float(score),
        policy_version=episode.policy_version,
    )


def storable(text: str) -> str:
    """Replace lone surrogates, which JSON can hold and UTF-8 cannot, by question marks."""
    return text.encode("utf-8", errors="replace").decode("utf-8")
