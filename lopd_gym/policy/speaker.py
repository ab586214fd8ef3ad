"""`Speaker`: a local model that holds plain conversations, such as a simulated user's part."""

from __future__ import annotations

import threading
from functools import cache
from itertools import count

from lopd_gym.episode import GREEDY
from lopd_gym.errors import InfrastructureError
from lopd_gym.messages import Message
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Turn
from lopd_gym.policy.model_policy import ModelPolicy
from lopd_gym.tasks import Task


class Speaker:
    """A frozen model that answers greedily, without tools. It may be asked from any thread.

    Args:
        backbone: The model, whose base weights speak.
        max_new_tokens: Tokens of one reply before it is cut off.
    """

    def __init__(self, backbone: Backbone, max_new_tokens: int = 1_000) -> None:
        self._policy = ModelPolicy(
            backbone, weights="base", sampling=GREEDY, max_new_tokens=max_new_tokens
        )
        self._asked_alone = threading.Lock()
        self._keys = count()

    def begin(self, system: str, text: str) -> tuple[int, str]:
        """Open a conversation by a system message and a first user message.

        Returns:
            The conversation's key, and the reply.

        Raises:
            InfrastructureError: The context is full, or generating broke.
        """
        task = Task("", "", (Message("system", system), Message("user", text)))
        with self._asked_alone:
            key = next(self._keys)
            self._policy.begin(key, task, (), seed=0)
            return key, self._reply()

    def answer(self, key: int, text: str) -> str:
        """Answer the next user message of a conversation; raises as `begin` does."""
        with self._asked_alone:
            self._policy.observe(key, (Message("user", text),))
            return self._reply()

    def end(self, key: int) -> None:
        """Close a conversation and free its memory."""
        with self._asked_alone:
            self._policy.end(key)

    def _reply(self) -> str:
        turns: list[Turn] = []
        while not turns:
            turns = self._policy.advance()
        turn = turns[0]
        if turn.error is not None:
            raise InfrastructureError(f"The model could not answer: {turn.error}.") from turn.error
        if turn.message.cut_off and not turn.sampled_tokens:
            raise InfrastructureError("The model could not answer: its context is full.")
        return turn.message.text.strip()


@cache
def load_speaker(source: str) -> Speaker:
    """Load a model to speak, once in a process.

    Raises:
        DataError: There is no whole model at the source.
    """
    return Speaker(Backbone.load(source))
