"""`OpenAIPolicy`: a model behind an OpenAI-style chat endpoint that plays, and cannot be trained.

Each conversation's request runs in a thread of its own; the loop bounds how many there are. What is
played has no tokens: the endpoint's are not ours to know.
"""

from __future__ import annotations

import json
import queue
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lopd_gym.chat.calls import call_from_json
from lopd_gym.endpoint import ContextFull, Endpoint, Reply, Unreachable
from lopd_gym.episode import Sampling
from lopd_gym.errors import UsageError
from lopd_gym.messages import AssistantMessage, Observation, ToolCall, ToolSpec
from lopd_gym.policy.base import Recording, Turn, empty_recording
from lopd_gym.tasks import Task
from lopd_gym.tools import error_text

_NO_ROOM = AssistantMessage(parse_error="the conversation is at its token limit", cut_off=True)


@dataclass(eq=False)
class _Conversation:
    key: int
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    names: Mapping[str, str]
    """Tool names as the endpoint knows them -> as the environment does."""
    seed: int
    tokens: int = 0
    unanswered: list[str] = field(default_factory=list)
    """Ids of the last turn's calls that no result was sent for yet."""


Answer = Reply | Exception


class OpenAIPolicy:
    """A `Policy` that asks an endpoint.

    Args:
        endpoint: The model.
        sampling: Temperature and top-p; endpoints of this kind know no top-k.
        max_new_tokens: Tokens of one turn before it is cut off.
    """

    version = 0

    def __init__(self, endpoint: Endpoint, sampling: Sampling, max_new_tokens: int) -> None:
        self._endpoint = endpoint
        self._options: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": max_new_tokens,
        }
        self._conversations: dict[int, _Conversation] = {}
        self._waiting: set[int] = set()
        self._answers: queue.SimpleQueue[tuple[_Conversation, Answer, float]] = queue.SimpleQueue()
        self._answered = False

    def begin(self, key: int, task: Task, tools: tuple[ToolSpec, ...], seed: int) -> None:
        """Open a conversation and ask for its first turn."""
        safe = safe_names(tools)
        documents = [spec.as_openai() for spec in tools]
        for document in documents:
            document["function"]["name"] = safe[document["function"]["name"]]
        conversation = _Conversation(
            key=key,
            messages=[{"role": m.role, "content": m.content} for m in task.messages],
            tools=documents,
            names={short: name for name, short in safe.items()},
            seed=seed,
        )
        self._conversations[key] = conversation
        self._ask(conversation)

    def observe(self, key: int, messages: Observation) -> None:
        """Append new messages to a conversation that waits, and ask for its next turn."""
        conversation = self._conversations[key]
        results = [message.content for message in messages if message.role == "tool"]
        unexecuted = error_text("this call was not executed")
        for index, identity in enumerate(conversation.unanswered):
            content = results[index] if index < len(results) else unexecuted
            conversation.messages.append(
                {"role": "tool", "tool_call_id": identity, "content": content}
            )
        # Results of calls that were written as text go where the model looks for them.
        loose = results[len(conversation.unanswered) :]
        loose += [message.content for message in messages if message.role != "tool"]
        conversation.messages += [{"role": "user", "content": text} for text in loose]
        conversation.unanswered = []
        self._ask(conversation)

    def advance(self) -> list[Turn]:
        """Wait for an answer, and return the turns that are there.

        Raises:
            UsageError: The endpoint refuses the key, the model or the request, or has never
                answered at all.
        """
        if not self._waiting:
            return []
        arrived = [self._answers.get()]
        while not self._answers.empty():
            arrived.append(self._answers.get())
        turns = []
        for conversation, answer, spent_s in sorted(arrived, key=lambda entry: entry[0].key):
            if self._conversations.get(conversation.key) is conversation:
                self._waiting.discard(conversation.key)
                turns.append(self._turn(conversation, answer, spent_s))
        return turns

    def context_tokens(self, key: int) -> int:
        """Return how many tokens the endpoint counted in a conversation's last request."""
        return self._conversations[key].tokens

    def end(self, key: int) -> Recording:
        """Close a conversation; its recording is empty. An answer under way is dropped."""
        del self._conversations[key]
        self._waiting.discard(key)
        return empty_recording()

    def _ask(self, conversation: _Conversation) -> None:
        self._waiting.add(conversation.key)
        # A daemon, so that a request under way does not hold up a Ctrl-C.
        threading.Thread(target=self._answer, args=(conversation,), daemon=True).start()

    def _answer(self, conversation: _Conversation) -> None:
        options = self._options | {"seed": conversation.seed % 2**31}
        if conversation.tools:
            options["tools"] = conversation.tools
        started = time.perf_counter()
        answer: Answer
        try:
            answer = self._endpoint.complete(conversation.messages, **options)
        except Exception as err:
            answer = err
        self._answers.put((conversation, answer, time.perf_counter() - started))

    def _turn(self, conversation: _Conversation, answer: Answer, spent_s: float) -> Turn:
        key = conversation.key
        if isinstance(answer, ContextFull):
            conversation.tokens = sys.maxsize
            return Turn(key, _NO_ROOM, generation_s=spent_s)
        if isinstance(answer, Unreachable) and not self._answered:
            raise UsageError(str(answer)) from answer
        if isinstance(answer, UsageError):
            raise answer
        if isinstance(answer, Exception):
            return Turn(key, AssistantMessage(), generation_s=spent_s, error=answer)
        self._answered = True
        conversation.tokens = answer.total_tokens
        message, kept, ids = read_message(answer, conversation.names)
        conversation.messages.append(kept)
        conversation.unanswered = ids
        return Turn(key, message, answer.completion_tokens, spent_s)


def read_message(
    reply: Reply, names: Mapping[str, str]
) -> tuple[AssistantMessage, dict[str, Any], list[str]]:
    """Read an endpoint's message.

    Args:
        reply: The endpoint's answer.
        names: Tool names as the endpoint knows them, and as the environment does.

    Returns:
        The message; what of it stays in the conversation; the ids of its calls. A call that cannot
        be read stays as text, since the endpoint would not take it back.
    """
    plain = reply.message
    text, reasoning = _split_reasoning(plain)
    written = plain.get("tool_calls") or []
    try:
        calls = [_tool_call(entry, names) for entry in written]
    except ValueError as err:
        kept = f"{text}\n{json.dumps(written, ensure_ascii=False)}".strip()
        problem = f"a tool call is not readable: {err}"
        message = AssistantMessage(text, (), reasoning, problem, reply.cut_off)
        return message, {"role": "assistant", "content": kept}, []
    ids = [str(entry.get("id") or f"call_{index}") for index, entry in enumerate(written)]
    stays: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        stays["tool_calls"] = [
            {"id": identity, "type": "function", "function": entry["function"]}
            for identity, entry in zip(ids, written, strict=True)
        ]
    error = "the reply was cut off at its token limit" if reply.cut_off and not calls else None
    return AssistantMessage(text, tuple(calls), reasoning, error, reply.cut_off), stays, ids


def _split_reasoning(plain: Mapping[str, Any]) -> tuple[str, str]:
    """Return text and reasoning, which some endpoints leave inside the text."""
    text = plain.get("content")
    text = text if isinstance(text, str) else ""
    thought, mark, rest = text.partition("</think>")
    if mark:
        return rest.strip(), thought.removeprefix("<think>").strip()
    return text, str(plain.get("reasoning_content") or plain.get("reasoning") or "")


def _tool_call(entry: Any, names: Mapping[str, str]) -> ToolCall:
    try:
        function = entry["function"]
        whole = {"name": function["name"], "arguments": function.get("arguments")}
        call = call_from_json(json.dumps(whole))
    except (KeyError, TypeError, AttributeError, RecursionError) as err:
        raise ValueError(f"expected a function with name and arguments ({err})") from err
    return ToolCall(names.get(call.name, call.name), call.arguments)


def safe_names(tools: Sequence[ToolSpec]) -> dict[str, str]:
    """Return for every tool a name that endpoints take: letters, digits, ``_`` and ``-``, 64."""
    safe: dict[str, str] = {}
    for spec in tools:
        short = re.sub(r"[^a-zA-Z0-9_-]", "_", spec.name)[:64]
        number = 2
        while short in safe.values():
            ending = f"_{number}"
            short, number = short[: 64 - len(ending)] + ending, number + 1
        safe.setdefault(spec.name, short)
    return safe
