"""The token-exact record of one play of one task.

The ids that the sampler saw and produced are stored and are what learners train on; text is never
tokenised again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lopd_gym.errors import DataError
from lopd_gym.messages import Message, ToolSpec
from lopd_gym.tasks import Check, Outcome, Termination


@dataclass(frozen=True, slots=True)
class Sampling:
    """How completions are drawn: temperature 0 is greedy, top_k 0 and top_p 1 are off."""

    temperature: float = 0.7
    top_p: float = 0.95
    top_k: int = 20


GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=0)


@dataclass(frozen=True, slots=True)
class Timings:
    """Where an episode's wall time went, in seconds."""

    wall_s: float = 0.0
    generation_s: float = 0.0
    environment_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One play of one task.

    The four token arrays have the same length T. ``loss_mask`` is True only on tokens that the
    policy sampled (the end-of-turn token included); it is not an attention mask. ``logprobs`` are
    the sampler's own (after temperature, top-p and top-k), 0 where nothing was sampled.
    ``turn_index`` is -1 in the prompt, else the index of the assistant turn that a token belongs
    to or precedes. ``prefix_len`` counts the tokens up to the end of the first user message: a
    self-teacher replaces only that prefix. ``actions`` lists the executed calls for the bank's
    traces as (tool name, arguments, observation text), ``tools`` what the prompt offered.
    ``isolation`` is the level of the sandbox that ran code which is not ours, if any.
    """

    task_id: str
    env: str
    split: str
    group: str
    instruction: str
    attempt: int
    seed: int
    policy_version: int
    sampling: Sampling
    token_ids: NDArray[np.int32]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float32]
    turn_index: NDArray[np.int16]
    prefix_len: int
    outcome: Outcome
    transcript: tuple[dict[str, Any], ...] = ()
    actions: tuple[tuple[str, dict[str, Any], str], ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    turns: int = 0
    parse_errors: int = 0
    timings: Timings = field(default_factory=Timings)
    isolation: str = ""

    @property
    def failed(self) -> bool:
        """Whether infrastructure broke; such an episode enters no loss and no average."""
        return self.outcome.failed

    @property
    def opening(self) -> tuple[Message, ...]:
        """The messages before the policy's first turn."""
        roles = [entry["role"] for entry in self.transcript]
        end = roles.index("assistant") if "assistant" in roles else len(roles)
        return tuple(Message(m["role"], m["content"]) for m in self.transcript[:end])

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the policy produced."""
        return int(self.loss_mask.sum())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values from which `from_json` rebuilds the episode exactly."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        for name in _ARRAYS:
            plain[name] = plain[name].tolist()
        plain["sampling"] = asdict(self.sampling)
        plain["timings"] = asdict(self.timings)
        plain["outcome"] = asdict(self.outcome)
        plain["tools"] = [asdict(spec) for spec in self.tools]
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Episode:
        """Rebuild an episode from `to_json`."""
        values = dict(plain)
        for name, dtype in _ARRAYS.items():
            values[name] = np.asarray(values[name], dtype=dtype)
        outcome = dict(values["outcome"])
        outcome["checks"] = tuple(Check(**c) for c in outcome["checks"])
        outcome["termination"] = Termination(outcome["termination"])
        values["outcome"] = Outcome(**outcome)
        values["sampling"] = Sampling(**values["sampling"])
        values["timings"] = Timings(**values["timings"])
        values["transcript"] = tuple(values["transcript"])
        values["tools"] = tuple(ToolSpec(**spec) for spec in values["tools"])
        values["actions"] = tuple((n, a, o) for n, a, o in values["actions"])
        return cls(**values)


_SURROGATE = re.compile("[\ud800-\udfff]")

_ARRAYS: dict[str, Any] = {
    "token_ids": np.int32,
    "loss_mask": np.bool_,
    "logprobs": np.float32,
    "turn_index": np.int16,
}


def append_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Append episodes to a JSON-lines file and flush it to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        for episode in episodes:
            out.write(_line(episode.to_json()) + "\n")
        out.flush()


def _line(plain: dict[str, Any]) -> str:
    """Return JSON that can be written as UTF-8: what holds lone surrogates is escaped."""
    text = json.dumps(plain, ensure_ascii=False)
    return json.dumps(plain) if _SURROGATE.search(text) else text


def read_episodes(path: Path) -> Iterator[Episode]:
    """Read episodes one by one; a torn last line (a killed process) is skipped.

    Raises:
        DataError: Any other line is not a whole record.
    """
    if not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                plain = json.loads(line)
            except ValueError as err:  # JSON's or, in a torn character, UTF-8's
                if not line.endswith(b"\n"):
                    return
                raise DataError(f"{path}, line {number}: not a whole JSON record ({err}).") from err
            try:
                episode = Episode.from_json(plain)
            except (AttributeError, KeyError, TypeError, ValueError) as err:
                raise DataError(f"{path}, line {number}: not an episode ({err!r}).") from err
            yield episode
