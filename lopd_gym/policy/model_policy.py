"""`ModelPolicy`: a language model that plays, with its conversations kept as token ids.

Text that was sampled is never tokenised again: the next turn's prompt is the ids so far, followed
by the ids of the new messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lopd_gym.episode import Sampling
from lopd_gym.messages import AssistantMessage, Observation, ToolSpec
from lopd_gym.policy.backbone import Backbone, Weights
from lopd_gym.policy.base import Completion, Engine, Prompt, Recording, Turn
from lopd_gym.policy.engine import MultiTurnEngine
from lopd_gym.tasks import Task

__all__ = ["MakePrompt", "ModelPolicy", "Weights", "task_prompt"]

MakePrompt = Callable[[Task, tuple[ToolSpec, ...]], Prompt]

_NO_ROOM = AssistantMessage(parse_error="the conversation is at its token limit", cut_off=True)


@dataclass(slots=True)
class _Conversation:
    tools: tuple[ToolSpec, ...]
    prefix_len: int
    ids: list[int]
    """All tokens but those of an unfinished turn."""
    logprobs: list[float]
    turn_index: list[int]
    sampled: list[bool]
    slot: int | None = None
    """Its slot in the engine; None until its first turn starts."""
    turns: int = 0
    ended: bool = True
    """Whether the last turn holds its end-of-turn token."""
    generation_s: float = 0.0
    """Its share of the time spent on the current turn."""

    def append(self, ids: list[int], logprobs: list[float] | None = None) -> None:
        """Append a sampled turn, or, where no log-probabilities are given, new messages."""
        self.ids += ids
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs
        self.turn_index += [self.turns] * len(ids)
        self.sampled += [logprobs is not None] * len(ids)


def task_prompt(backbone: Backbone, task: Task, tools: tuple[ToolSpec, ...]) -> Prompt:
    """Render and tokenise a task's first messages; prefix and rest separately."""
    prefix, rest = (backbone.encode(text) for text in backbone.chat.opening(task.messages, tools))
    return Prompt(prefix + rest, len(prefix))


class ModelPolicy:
    """A `Policy` that samples from a backbone's student or base.

    Args:
        backbone: The model.
        weights: Whether the student or the base plays.
        sampling: How tokens are drawn.
        max_new_tokens: Tokens of one turn before it is cut off.
        max_context_tokens: Tokens of a whole conversation; a turn is cut off there, and a
            conversation that is full answers with a cut-off turn of no tokens.
        make_prompt: How a task becomes a prompt; a teacher puts its latents in here.
        engine: What generates; by default a new `MultiTurnEngine`.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        weights: Weights = "student",
        sampling: Sampling | None = None,
        max_new_tokens: int = 512,
        max_context_tokens: int = 32_768,
        make_prompt: MakePrompt | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.sampling = sampling or Sampling()
        self._backbone = backbone
        self._weights = weights
        self._max_new = max_new_tokens
        longest = getattr(backbone.base.config, "max_position_embeddings", None)
        self._max_context = min(max_context_tokens, longest or max_context_tokens)
        self._make_prompt = make_prompt or partial(task_prompt, backbone)
        self._engine = engine or MultiTurnEngine(backbone, weights=weights, sampling=self.sampling)
        self._conversations: dict[int, _Conversation] = {}
        self._running: dict[int, int] = {}  # slot -> key of the conversations in a turn
        self._full: list[int] = []  # keys of the conversations that have no room for a turn

    @property
    def version(self) -> int:
        """How often the weights that play were updated."""
        return self._backbone.student_version if self._weights == "student" else 0

    def begin(self, key: int, task: Task, tools: tuple[ToolSpec, ...], seed: int) -> None:
        """Open a conversation; its first turn starts with the next `advance`."""
        prompt = self._make_prompt(task, tools)
        count = len(prompt.ids)
        conversation = _Conversation(
            tools=tools,
            prefix_len=prompt.prefix_len,
            ids=list(prompt.ids),
            logprobs=[0.0] * count,
            turn_index=[-1] * count,
            sampled=[False] * count,
        )
        self._conversations[key] = conversation
        limit = self._limit(count)
        if limit < 1:
            self._full.append(key)
            return
        conversation.slot = self._engine.open(prompt, seed=seed, max_new_tokens=limit)
        self._running[conversation.slot] = key

    def observe(self, key: int, messages: Observation) -> None:
        """Append new messages to a conversation that waits, and start its next turn."""
        conversation = self._conversations[key]
        text = self._backbone.chat.following(messages, ended=conversation.ended)
        ids = self._backbone.encode(text)
        conversation.append(ids)
        limit = self._limit(len(conversation.ids))
        if limit < 1 or conversation.slot is None:
            self._full.append(key)
            return
        self._engine.extend(conversation.slot, ids, max_new_tokens=limit)
        self._running[conversation.slot] = key

    def advance(self) -> list[Turn]:
        """Decode one token for all conversations in a turn; return the turns that ended."""
        full, self._full = self._full, []
        turns = [Turn(key, _NO_ROOM) for key in full]
        started = time.perf_counter()
        completions = self._engine.step()
        if self._running:
            share = (time.perf_counter() - started) / len(self._running)
            for key in self._running.values():
                self._conversations[key].generation_s += share
        return turns + [self._finish(completion) for completion in completions]

    def context_tokens(self, key: int) -> int:
        """Return how many tokens a conversation holds, an unfinished turn left out."""
        return len(self._conversations[key].ids)

    def end(self, key: int) -> Recording:
        """Close a conversation and return its tokens, an unfinished turn left out."""
        conversation = self._conversations.pop(key)
        if key in self._full:
            self._full.remove(key)
        if conversation.slot is not None:
            self._running.pop(conversation.slot, None)
            self._engine.close(conversation.slot)
        return Recording(
            token_ids=np.asarray(conversation.ids, np.int32),
            loss_mask=np.asarray(conversation.sampled, np.bool_),
            logprobs=np.asarray(conversation.logprobs, np.float32),
            turn_index=np.asarray(conversation.turn_index, np.int16),
            prefix_len=conversation.prefix_len,
        )

    def _limit(self, tokens: int) -> int:
        """Return how many tokens a turn may have in a conversation that holds ``tokens``."""
        return min(self._max_new, self._max_context - tokens)

    def _finish(self, completion: Completion) -> Turn:
        key = self._running.pop(completion.slot)
        conversation = self._conversations[key]
        conversation.append(completion.ids, completion.logprobs)
        conversation.turns += 1
        conversation.ended = completion.ids[-1] == self._backbone.end_of_turn_id
        stopped = not completion.cut_off
        text = self._backbone.decode(completion.ids[:-1] if stopped else completion.ids)
        message = self._backbone.chat.parse(text, conversation.tools)
        if completion.cut_off:
            message = _cut_off(message)
        spent, conversation.generation_s = conversation.generation_s, 0.0
        return Turn(key, message, len(completion.ids), spent)


def _cut_off(message: AssistantMessage) -> AssistantMessage:
    """Mark a turn that hit its limit; half a text must not pass for the final answer."""
    error = message.parse_error
    if not message.tool_calls and error is None:
        error = "the reply was cut off at its token limit"
    return replace(message, cut_off=True, parse_error=error)
