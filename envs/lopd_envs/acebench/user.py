"""Who plays the user of `agent_multi_turn`: a model, here or behind an endpoint, or a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lopd_envs.acebench.corpus import Row
from lopd_envs.acebench.prompt import FINISH, prompts, user_role
from lopd_gym.endpoint import ContextFull, Endpoint, endpoint_model
from lopd_gym.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from lopd_gym.policy.speaker import Speaker

SCRIPTED = "scripted"
_MAX_TOKENS = 1_000


class User(Protocol):
    """The user of one episode."""

    def say(self, agent: str | None) -> str:
        """Answer what the agent said; None asks for the words that open the conversation."""
        ...

    def leave(self) -> None:
        """Free what the conversation holds; it is over."""
        ...


@dataclass(frozen=True, slots=True)
class Users:
    """Who plays the users: a name that scores are labelled with, and what makes one for a task."""

    name: str
    make: Callable[[Row, str], User]


class ScriptedUser:
    """Says all of the instruction at once, then agrees, then ends: for tests, not for scores."""

    def __init__(self, row: Row, language: str) -> None:
        self._lines = iter([row.fields["question"], "Yes, please go ahead."])

    def say(self, agent: str | None) -> str:
        """Say the next line."""
        return next(self._lines, FINISH)

    def leave(self) -> None:
        """Do nothing: a script holds nothing."""


class EndpointUser:
    """A model behind an endpoint, told to be the user."""

    def __init__(self, endpoint: Endpoint, row: Row, language: str) -> None:
        self._endpoint = endpoint
        self._greeting = prompts(language)["greeting"]
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": user_role(row, language)}
        ]

    def say(self, agent: str | None) -> str:
        """Ask the model for the user's next line.

        Raises:
            InfrastructureError: The model cannot be asked, or has no more room.
        """
        self._messages.append({"role": "user", "content": agent or self._greeting})
        try:
            reply = self._endpoint.complete(self._messages, temperature=0.0, max_tokens=_MAX_TOKENS)
        except ContextFull as err:
            raise InfrastructureError(f"The simulated user's context is full ({err}).") from err
        text = str(reply.message.get("content") or "").rpartition("</think>")[2].strip()
        self._messages.append({"role": "assistant", "content": text})
        return text

    def leave(self) -> None:
        """Do nothing: every request holds the whole conversation."""


class LocalUser:
    """A model in this process, told to be the user: the policy's own, where it is named again."""

    def __init__(self, speaker: Speaker, row: Row, language: str) -> None:
        self._speaker = speaker
        self._role = user_role(row, language)
        self._greeting = prompts(language)["greeting"]
        self._key: int | None = None

    def say(self, agent: str | None) -> str:
        """Generate the user's next line.

        Raises:
            InfrastructureError: The conversation has no more room, or generating broke.
        """
        if self._key is None:
            self._key, line = self._speaker.begin(self._role, agent or self._greeting)
            return line
        return self._speaker.answer(self._key, agent or self._greeting)

    def leave(self) -> None:
        """Close the conversation."""
        if self._key is not None:
            self._speaker.end(self._key)
            self._key = None


def find_users(name: str | None, url: str | None) -> Users | None:
    """Return who plays the users of episodes, or None where nobody is named.

    Args:
        name: ``scripted``, ``openai:NAME``, or a local model: what ``--model`` takes.
        url: The endpoint's address.

    Raises:
        DataError: There is no such local model.
        UsageError: No address of an endpoint.
    """
    if name is None:
        return None
    if name == SCRIPTED:
        return Users(name, ScriptedUser)
    model = endpoint_model(name)
    if model is None:
        from lopd_gym.policy.speaker import load_speaker

        return Users(Path(name).name, partial(LocalUser, load_speaker(name)))
    if url is None:
        raise UsageError(
            f"The user '{name}' is behind an endpoint: give its address with "
            "--set env.user_url=http://localhost:8000/v1."
        )
    return Users(name, partial(EndpointUser, Endpoint(model, url)))
