"""The contract of a learner: it consumes episodes and improves the student.

The run owns tasks, rollouts, evaluation, checkpoints and metrics; a learner owns its losses,
optimisers and extra modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from lopd_gym.episode import Episode

if TYPE_CHECKING:
    from lopd_gym.bank import Bank
    from lopd_gym.policy.backbone import Backbone

Metrics = dict[str, float]
Progress = Callable[[int, int, Metrics], None]
"""Called with (steps done, steps in all, newest metrics)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a learner asks of the run.

    ``episodes_per_task`` is the group size; ``bank`` asks for an experience bank, filled before
    training with the successes of ``bank_rollouts`` episodes of the base policy. ``growing_bank``
    goes on filling it with those of training; ``solved_tasks`` keeps training to tasks that the
    bank holds a success of.
    """

    episodes_per_task: int = 1
    bank: bool = False
    bank_rollouts: int = 0
    growing_bank: bool = False
    solved_tasks: bool = False


@dataclass(frozen=True, slots=True)
class LearnerContext:
    """What the run gives a learner: the model, the bank, and where to keep things."""

    backbone: Backbone
    bank: Bank | None
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True, eq=False)
class TokenView:
    """What a teacher and the student make of the tokens that an episode sampled.

    ``positions`` [S] are places in the episode's ``token_ids``; ``teacher`` and ``student`` [S]
    the log-probabilities of the tokens there, in nats at temperature 1. ``context`` is the text
    that the teacher was shown and the student was not.
    """

    positions: NDArray[np.int64]
    teacher: NDArray[np.float32]
    student: NDArray[np.float32]
    context: str


class Learner(ABC):
    """Base of all learners. ``presets`` maps a preset's name to changes of the config."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    config_type: ClassVar[type[BaseModel]]
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    def __init__(self, config: Any, context: LearnerContext) -> None:
        self.config = config
        self.context = context

    @classmethod
    def needs(cls, config: Any) -> Needs:
        """Say what a learner with this config asks of the run."""
        return Needs()

    def prepare(self, successes: Sequence[Episode], progress: Progress) -> None:  # noqa: B027
        """Warm up before training on the base policy's own successful episodes."""

    @abstractmethod
    def update(self, episodes: Sequence[Episode]) -> Metrics:
        """Learn from the episodes of one step, all played by the current student.

        Failed episodes have already been taken out; the list may be empty.
        """

    def token_view(self, episode: Episode, step: Sequence[Episode]) -> TokenView | None:
        """Compare teacher and student on what an episode sampled; it changes nothing.

        A learner with a teacher may offer this for reports. None where it has no teacher, or the
        teacher has nothing to say on this episode.

        Args:
            episode: One of ``step``.
            step: The episodes of one training step, siblings included; none has failed.
        """
        return None

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return everything but the student's weights that a resumed run needs."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
