"""Ask a model that is served behind an OpenAI-style endpoint."""

from __future__ import annotations

import json
import os
import time
from typing import Any
from urllib.request import Request, urlopen

from lopd_gym.errors import InfrastructureError

KEY = "OPENAI_API_KEY"
"""The environment variable that holds the endpoint's key, where it wants one."""

_TRIES, _TIMEOUT_S, _MOST_BYTES = 3, 120.0, 1 << 20


def ask(endpoint: str, model: str, question: str) -> str:
    """Return a model's answer to one user message.

    Args:
        endpoint: Address up to its version, as in ``http://localhost:8000/v1``.
        model: Name of the model there.
        question: The message.

    Raises:
        InfrastructureError: The endpoint gave no answer in three tries.
    """
    body = {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    address = f"{endpoint.rstrip('/')}/chat/completions"
    request = Request(address, json.dumps(body).encode(), headers)
    problem: Exception | None = None
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(2**attempt)
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as reply:
                return _content(json.loads(reply.read(_MOST_BYTES)))
        except (OSError, ValueError, LookupError, TypeError) as err:
            problem = err
    raise InfrastructureError(
        f"The endpoint {endpoint} gave no answer of the model '{model}' in {_TRIES} tries "
        f"({type(problem).__name__}: {problem}): check the address, the model's name and {KEY}, "
        "then resume the run."
    )


def _content(reply: Any) -> str:
    content = reply["choices"][0]["message"]["content"]
    if not isinstance(content, str):
        raise TypeError(f"expected text, found {type(content).__name__}")
    return content
