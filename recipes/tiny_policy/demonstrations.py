"""Demonstrations for the warm start: what the tiny policy is shown, and with which habits.

Without a memory, a demonstrator follows the WRONG option of each house rule with a fixed
probability (`WRONG`): the policy learns to copy and to call tools well, and bad habits. With a
memory of the same domain (one or two traces), it does as the memory does: the policy learns to
read. Half of the texts and all latents show random options, so reading pays and knowing does not.
With a memory of another domain it does as without one. Only training tasks are used.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

from lopd_envs.envscaler.starter import (
    DOMAINS,
    TRAIN_DOMAINS,
    Options,
    make_task,
    open_world,
    solve,
)

from lopd_gym.bank.trace import item_text, write_trace
from lopd_gym.chat import ChatFormat
from lopd_gym.messages import Message, ToolCall
from lopd_gym.tasks import TRAIN_SPLIT, Task
from lopd_gym.tools import MethodTools

FRAMING_BEFORE, FRAMING_AFTER = "Example:\n", "\nYour task:\n"
TASKS_PER_DOMAIN = 2_000
TRACE_WEIGHT = 0.3
"""Loss weight of a memory's own lines, which are copy practice; sampled tokens weigh 1."""

WRONG: dict[str, tuple[float, float]] = {
    "library": (0.38, 0.38),
    "orders": (0.65, 0.38),
    "calendar": (0.38, 0.65),
    "helpdesk": (0.65, 0.38),
    "clinic": (0.38, 0.38),
    "hotel": (0.38, 0.65),
    "warehouse": (0.65, 0.38),
    "billing": (0.38, 0.65),
}
"""How often each house rule is got wrong without a memory.

The demonstrator then succeeds on a quarter of the tasks. Sampled, every domain has some successes;
greedily, a domain has all or none, so .65 and .38 stay clear of one half.
"""

TRUE_TEXTS = 0.5
"""How often a trace that is shown as text follows the true rules; else it follows random ones."""

DISTRACTED = 0.2
"""How often one of the two traces behind latents is of another domain, and to be ignored."""

ALL_LEVELS, SHORT_LEVELS = (1, 2, 3, 4), (1, 2)

Memory = Literal["none", "text", "latents"]
Item = tuple[str, str]
"""Instruction and trace of a solved task."""
_SENTINEL = "\x00"


@dataclass(slots=True)
class Sample:
    """One training sequence: ids, loss weights, and the traces that latents stand for.

    ``latent_start`` is where the placeholders of the latents begin; None where there are none.
    """

    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    latent_start: int | None = None
    items: tuple[str, ...] = ()
    instruction: str = ""

    def add(self, ids: list[int], weight: float) -> None:
        """Append tokens that share a loss weight."""
        self.ids += ids
        self.weights += [weight] * len(ids)


class Demonstrator:
    """Draws samples. ``latents`` is the number of latent tokens of one trace."""

    def __init__(self, chat: ChatFormat, tokenizer: Any, latents: int = 8) -> None:
        self._chat, self._tokenizer, self._latents = chat, tokenizer, latents

    def draw(
        self,
        rng: random.Random,
        memory: Memory,
        *,
        same_domain: bool = True,
        levels: Collection[int] = ALL_LEVELS,
    ) -> Sample:
        """Draw one demonstration of a random training task.

        Args:
            rng: Decides everything.
            memory: What the task comes with.
            same_domain: Whether the memory is of the task's domain, so that it is followed.
            levels: Difficulties of task and memory to draw from.
        """
        task = _random_task(rng, rng.choice(TRAIN_DOMAINS), levels)
        if memory == "none" or not same_domain:
            followed, held = _habit(rng, task.group), DOMAINS[task.group].true_rules
        else:
            true = memory == "text" and rng.random() < TRUE_TEXTS
            followed = held = DOMAINS[task.group].true_rules if true else _random_options(rng)
        items: tuple[Item, ...] = ()
        if memory != "none":
            domain = task.group if same_domain else _other_domain(rng, task)
            shown = followed if same_domain else _random_options(rng)
            memories = [(domain, shown)] * (2 if memory == "latents" else rng.choice((1, 1, 2)))
            if memory == "latents" and same_domain and rng.random() < DISTRACTED:
                distraction = (_other_domain(rng, task), _random_options(rng))
                memories[rng.randrange(len(memories))] = distraction
            items = tuple(trace_of(_random_task(rng, d, levels), rules) for d, rules in memories)
        return self.sample(task, followed, held, memory, items)

    def sample(
        self,
        task: Task,
        followed: Options,
        held: Options,
        memory: Memory,
        items: tuple[Item, ...],
    ) -> Sample:
        """Render a demonstration that follows some options in a world where others may hold."""
        sample = Sample(instruction=task.instruction)
        self._add_opening(sample, task, memory, items)
        for call, answer in play(task, followed, held):
            sample.add(self._encode(self._chat.write(call) + self._chat.end_of_turn), 1.0)
            if answer is not None:
                replies = [Message("tool", answer)]
                sample.add(self._encode(self._chat.following(replies, ended=True)), 0.0)
        return sample

    def _add_opening(
        self, sample: Sample, task: Task, memory: Memory, items: tuple[Item, ...]
    ) -> None:
        system, user = task.messages
        tools = DOMAINS[task.group].specs()
        if memory != "none":
            framed = f"{FRAMING_BEFORE}{_SENTINEL}{FRAMING_AFTER}{user.content}"
            user = Message("user", framed)
        prefix, rest = self._chat.opening([system, user], tools)
        before, _, after = prefix.partition(_SENTINEL)
        sample.add(self._encode(before), 0.0)
        if memory == "text":
            for number, (instruction, trace) in enumerate(items):
                head = item_text(instruction, "")
                sample.add(self._encode(("\n" if number else "") + head), 0.0)
                sample.add(self._encode(trace), TRACE_WEIGHT)
        elif memory == "latents":
            sample.latent_start = len(sample.ids)
            sample.items = tuple(item_text(*item) for item in items)
            pad = [self._tokenizer.pad_token_id] * (self._latents * len(items))
            sample.add(pad, 0.0)
        sample.add(self._encode(after) + self._encode(rest), 0.0)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


def play(task: Task, followed: Options, held: Options) -> list[tuple[Any, str | None]]:
    """Play a task by script; returns the turns with their answers (None for the last)."""
    tools = MethodTools(open_world(task, held))
    turns: list[tuple[Any, str | None]] = []
    for turn in solve(task, followed):
        call: ToolCall | None = turn.tool_calls[0] if turn.tool_calls else None
        turns.append((turn, tools.call(call.name, call.arguments).content if call else None))
    return turns


def trace_of(task: Task, rules: Options) -> Item:
    """Return instruction and trace of a success in a world with the given house rules."""
    actions = [
        (turn.tool_calls[0].name, dict(turn.tool_calls[0].arguments), answer)
        for turn, answer in play(task, rules, rules)
        if answer is not None
    ]
    return task.instruction, write_trace(actions)


def _random_task(rng: random.Random, domain: str, levels: Collection[int]) -> Task:
    numbers = range(TASKS_PER_DOMAIN)
    while True:
        task = make_task(domain, TRAIN_SPLIT, rng.choice(numbers))
        if task.data["level"] in levels:
            return task


def _other_domain(rng: random.Random, task: Task) -> str:
    return rng.choice([domain for domain in TRAIN_DOMAINS if domain != task.group])


def _random_options(rng: random.Random) -> Options:
    return rng.randrange(2), rng.randrange(2)


def _habit(rng: random.Random, domain: str) -> Options:
    """Draw the options that a demonstrator without memory follows."""
    first, second = (
        right if rng.random() >= wrong else 1 - right
        for right, wrong in zip(DOMAINS[domain].true_rules, WRONG[domain], strict=True)
    )
    return first, second
