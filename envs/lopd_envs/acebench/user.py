"""Who plays the user of `agent_multi_turn`: a model behind an endpoint, or a script for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from lopd_envs.acebench.corpus import Row
from lopd_envs.acebench.prompt import FINISH
from lopd_gym.endpoint import ContextFull, Endpoint, endpoint_model
from lopd_gym.errors import InfrastructureError, UsageError

SCRIPTED = "scripted"
_MAX_TOKENS = 1_000
_GREETING = {"en": "Hello, what can I do for you?", "zh": "您好，请问需要什么帮助？"}  # noqa: RUF001

_ROLE = """\
You play the user in a conversation with an assistant. This is who you are and what you want:

{instruction}

- Write one line each time, as the user would say it{own_words}.
- Tell only what the current step needs, but all of that; do not tell everything at once.
- Never make up what you are not told here: say that you do not know it.
- Do not offer help, and do not do the assistant's work; answer its questions.
- Where you are asked to confirm or to choose, decide by what you are told here.
- When the assistant asks whether there is anything else, name what is not done yet.{more}
- When everything that you want is done, write only: {finish}"""

_PHONE = """
- Names that you are told are full names.
- Where a message has to be deleted, say which one by what you are told here."""
_AIRLINE = """
- Where you want to fly there and back, say at the very beginning that you book a round trip."""


class User(Protocol):
    """The user of one episode."""

    def say(self, agent: str | None) -> str:
        """Answer what the agent said; None asks for the words that open the conversation."""
        ...


MakeUser = Callable[[Row, str], User]
"""Makes the user of a task, in a language."""


class ScriptedUser:
    """Says all of the instruction at once, then agrees, then ends: for tests, not for scores."""

    def __init__(self, row: Row, language: str) -> None:
        self._lines = iter([row.fields["question"], "Yes, please go ahead."])

    def say(self, agent: str | None) -> str:
        """Say the next line."""
        return next(self._lines, FINISH)


class EndpointUser:
    """A model behind an endpoint, told to be the user."""

    def __init__(self, endpoint: Endpoint, row: Row, language: str) -> None:
        airline = "Travel" in row.fields["involved_classes"]
        role = _ROLE.format(
            instruction=row.fields["question"],
            own_words=", in your own words" if airline else "",
            more=_AIRLINE if airline else _PHONE,
            finish=FINISH,
        )
        self._endpoint = endpoint
        self._greeting = _GREETING[language]
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": role}]

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


def make_user(name: str | None, url: str | None) -> MakeUser | None:
    """Return what makes the users of episodes, or None where no user is named.

    Args:
        name: ``scripted`` or ``openai:NAME``.
        url: The endpoint's address.

    Raises:
        UsageError: Another name, or no address of an endpoint.
    """
    if name is None:
        return None
    if name == SCRIPTED:
        return ScriptedUser
    model = endpoint_model(name)
    if model is None:
        raise UsageError(f"Expected env.user to be openai:NAME or {SCRIPTED}, found '{name}'.")
    if url is None:
        raise UsageError(
            f"The user '{name}' is behind an endpoint: give its address with "
            "--set env.user_url=http://localhost:8000/v1."
        )
    endpoint = Endpoint(model, url)
    return lambda row, language: EndpointUser(endpoint, row, language)
