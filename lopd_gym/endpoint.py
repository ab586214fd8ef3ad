"""Ask a language model behind an OpenAI-style chat endpoint, over plain HTTP.

What may pass (rate limits, time-outs, a server that is busy or restarting) is tried again with
growing pauses; what does not is one sentence that says what to do.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lopd_gym.errors import InfrastructureError, UsageError

PREFIX = "openai:"
"""What the name of a model behind an endpoint begins with."""

API_KEY = "OPENAI_API_KEY"
"""The environment variable that holds the key, where the endpoint wants one."""

_LONGEST_PAUSE_S = 60.0
_LARGEST_ANSWER = 64 << 20
_TRANSIENT = {
    408: "took too long",
    425: "asked to try again",
    429: "limits the rate of requests",
    500: "failed",
    502: "could not be reached by its gateway",
    503: "is overloaded or starting",
    504: "took too long for its gateway",
    529: "is overloaded",
}
_NEW_LIMIT = "max_completion_tokens"
_TOO_LONG = ("context length", "context_length", "maximum context", "too many tokens", "too long")


class Unreachable(InfrastructureError):
    """Nothing answers at the endpoint's address."""


class ContextFull(Exception):
    """The conversation is longer than the model takes."""


class _Passing(Exception):
    """Trouble that may pass; ``pause_s`` is how long the endpoint asked to wait."""

    def __init__(self, reason: str, pause_s: float | None = None, answered: bool = True) -> None:
        super().__init__(reason)
        self.pause_s = pause_s
        self.answered = answered


class _LimitRenamed(UsageError):
    """The endpoint wants the limit on new tokens under its newer name."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the endpoint answered: the assistant's message as it came, and what it cost."""

    message: Mapping[str, Any]
    cut_off: bool
    total_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Endpoint:
    """One model behind one endpoint; may be used from many threads.

    Attributes:
        model: The model's name at the endpoint.
        base_url: The address up to and including the version, like ``http://localhost:8000/v1``.
        timeout_s: How long the endpoint may be silent, in seconds.
        retries: How often a try is repeated for reasons that may pass.
        pause_s: The first pause before that; each is twice as long as the one before.
    """

    model: str
    base_url: str
    timeout_s: float = 120.0
    retries: int = 5
    pause_s: float = 1.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    _renamed: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the address; raises `UsageError` for one that is none."""
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError(
                f"Expected an endpoint's address like http://localhost:8000/v1, found "
                f"'{self.base_url}': give it with --base-url."
            )

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Reply:
        """Ask for the next assistant message.

        Args:
            messages: The conversation, in the endpoint's format.
            **options: Further fields of the request, such as ``temperature`` and ``tools``.

        Raises:
            UsageError: The endpoint refuses the key, the model or the request.
            ContextFull: The conversation is longer than the model takes.
            InfrastructureError: All tries failed (`Unreachable` where none was answered).
        """
        body = {"model": self.model, "messages": list(messages), **options}
        if not self._renamed.is_set():
            try:
                return self._try(body)
            except _LimitRenamed:
                self._renamed.set()
        body[_NEW_LIMIT] = body.pop("max_tokens", None)
        return self._try(body)

    def _try(self, body: Mapping[str, Any]) -> Reply:
        answered, pause_s = False, self.pause_s
        for left in range(self.retries, -1, -1):
            try:
                return _read(self._send(json.dumps(body).encode()))
            except _Passing as trouble:
                answered |= trouble.answered
                if left == 0:
                    raise self._given_up(trouble, answered) from trouble
                asked = trouble.pause_s if trouble.pause_s is not None else pause_s
                self.sleep(min(asked, _LONGEST_PAUSE_S) * (1 + random.random() / 4))
                pause_s *= 2
        raise AssertionError("the last try returns or raises")

    def _given_up(self, trouble: _Passing, answered: bool) -> InfrastructureError:
        tries = f"The endpoint {self.base_url} {trouble}; gave up after {self.retries + 1} tries"
        if not answered:
            return Unreachable(f"{tries}: check --base-url, and that the server runs.")
        return InfrastructureError(
            f"{tries}: set limits.concurrency lower or model.endpoint.timeout_s higher, or try "
            "again later."
        )

    def _send(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        if os.environ.get(API_KEY):
            headers["Authorization"] = f"Bearer {os.environ[API_KEY]}"
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        request = urllib.request.Request(url, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                found: bytes = response.read(_LARGEST_ANSWER)
                return found
        except urllib.error.HTTPError as err:
            raise self._refusal(err) from err
        except TimeoutError as err:
            raise _Passing(f"did not answer within {self.timeout_s:g} s") from err
        except urllib.error.URLError as err:
            if isinstance(err.reason, TimeoutError):
                reason = f"did not take a connection within {self.timeout_s:g} s"
                raise _Passing(reason, answered=False) from err
            raise _Passing(f"is not reachable ({err.reason})", answered=False) from err
        except (http.client.HTTPException, OSError) as err:
            raise _Passing(f"broke the connection ({type(err).__name__})") from err

    def _refusal(self, err: urllib.error.HTTPError) -> Exception:
        """Return what to raise for an HTTP error."""
        said = _said(err)
        if err.code in _TRANSIENT:
            pause_s = _retry_after(err.headers.get("Retry-After"))
            return _Passing(f"{_TRANSIENT[err.code]} (HTTP {err.code}{said})", pause_s)
        if err.code in (400, 413, 422) and any(words in said.lower() for words in _TOO_LONG):
            return ContextFull(said)
        advice = {
            401: f"set {API_KEY} to a key that it takes",
            403: f"set {API_KEY} to a key that may use this model",
            404: "check --base-url and the model's name",
        }.get(err.code, "it does not take such a request")
        kind = _LimitRenamed if err.code == 400 and _NEW_LIMIT in said else UsageError
        return kind(
            f"The endpoint {self.base_url} refuses '{self.model}' (HTTP {err.code}{said}): "
            f"{advice}."
        )


def _said(err: urllib.error.HTTPError) -> str:
    """Return the message of an error's body, shortened, with a colon before it."""
    try:
        text = err.read(10_000).decode("utf-8", "replace")
        found = json.loads(text)
        error = found.get("error", found)
        text = str(error.get("message", text) if isinstance(error, dict) else error)
    except (ValueError, OSError, AttributeError, RecursionError, http.client.HTTPException):
        text = ""
    line = " ".join(text.split())
    return f": {line[:200].rstrip('.')}" if line else ""


def _retry_after(header: str | None) -> float | None:
    """Read seconds or a date; None where there is neither."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _read(body: bytes) -> Reply:
    """Read an answer; one that is none may be a gateway's, and may pass."""
    try:
        found = json.loads(body)
        choice = found["choices"][0]
        message, usage = choice["message"], found.get("usage") or {}
        if not isinstance(message, dict):
            raise TypeError("no message")
        return Reply(
            message=message,
            cut_off=choice.get("finish_reason") == "length",
            total_tokens=int(usage.get("total_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as err:
        raise _Passing(f"sent no chat completion ({type(err).__name__}: {err})") from err


def endpoint_model(name: str) -> str | None:
    """Return the model's name behind ``openai:``, or None where the name is of another kind."""
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else None
