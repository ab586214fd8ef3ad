"""The agent loop: a policy plays many tasks at once and every episode is recorded.

Each round collects the environment steps of the round before, lets the policy do one step of
work, and hands finished turns to their environments. Environments that wait for another process
step in threads while the policy generates. Results are always collected one round later, so what
shares a batch depends on seeds alone and never on timing: a run can be repeated exactly.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from lopd_gym.env import ToolEnv
from lopd_gym.episode import Episode, Sampling, Timings
from lopd_gym.errors import UsageError
from lopd_gym.messages import AssistantMessage, Observation, ToolSpec
from lopd_gym.policy.base import Policy, Recording, Turn, empty_recording
from lopd_gym.tasks import Outcome, Task, Termination

Reply = tuple[Observation, dict[str, Any]]
"""New messages and Gymnasium's info."""


class LoopLimits(BaseModel):
    """Budgets of the agent loop.

    Attributes:
        concurrency: Episodes that are played at the same time.
        max_tokens: Tokens of one episode, prompt and observations included.
        max_seconds: Wall time of one episode; None for no limit. A limit in seconds makes
            results depend on the machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: int = Field(64, ge=1)
    max_tokens: int = Field(40_960, ge=16)
    max_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play. ``attempt`` numbers repeated plays of a task."""

    task_id: str
    seed: int
    attempt: int = 0


@dataclass(slots=True)
class _Play:
    """An episode in progress."""

    index: int
    job: Job
    env: ToolEnv
    started: float
    conversing: bool = False
    task: Task | None = None
    tools: tuple[ToolSpec, ...] = ()
    transcript: list[dict[str, Any]] = field(default_factory=list)
    actions: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    turns: int = 0
    parse_errors: int = 0
    generation_s: float = 0.0
    environment_s: float = 0.0


class AgentLoop:
    """Plays jobs with one policy and a pool of environments made by ``make_env``."""

    def __init__(
        self,
        make_env: Callable[[], ToolEnv],
        policy: Policy,
        sampling: Sampling,
        limits: LoopLimits | None = None,
    ) -> None:
        self._make_env = make_env
        self._policy = policy
        self._sampling = sampling
        self.limits = limits or LoopLimits()
        self._idle: list[ToolEnv] = []
        self._threads: ThreadPoolExecutor | None = None

    def play(
        self, jobs: Sequence[Job], progress: Callable[[Episode], None] | None = None
    ) -> list[Episode]:
        """Play every job and return the episodes in the order of the jobs.

        An environment that breaks costs its episode, which is marked failed, and nothing else.
        """
        queue = deque(enumerate(jobs))
        plays: dict[int, _Play] = {}
        pending: deque[tuple[int, Future[Reply]]] = deque()
        episodes: dict[int, Episode] = {}

        def end(index: int, episode: Episode) -> None:
            episodes[index] = episode
            del plays[index]
            if progress is not None:
                progress(episode)

        try:
            while queue or plays:
                while queue and len(plays) < self.limits.concurrency:
                    index, job = queue.popleft()
                    play = _Play(index, job, self._take_env(), time.perf_counter())
                    plays[index] = play
                    pending.append((index, self._submit(play.env, _reset, play)))
                for _ in range(len(pending)):
                    index, future = pending.popleft()
                    episode = self._receive(plays[index], future)
                    if episode is not None:
                        end(index, episode)
                for turn in self._policy.advance():
                    play = plays[turn.key]
                    if turn.error is not None:
                        end(turn.key, self._fail(play, turn.error))
                        continue
                    self._note_turn(play, turn)
                    future = self._submit(play.env, _step, play, turn.message)
                    pending.append((turn.key, future))
        finally:
            self._idle += [play.env for play in plays.values()]
            for play in plays.values():
                self._close_conversation(play)
        return [episodes[i] for i in range(len(jobs))]

    def close(self) -> None:
        """Close the environments and threads."""
        for env in self._idle:
            env.close()
        self._idle.clear()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def __enter__(self) -> AgentLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- environments ------------------------------------------------------------------------

    def _take_env(self) -> ToolEnv:
        return self._idle.pop() if self._idle else self._make_env()

    def _submit(self, env: ToolEnv, work: Callable[..., Reply], *args: Any) -> Future[Reply]:
        if env.blocking:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.limits.concurrency, "env")
            return self._threads.submit(work, *args)
        future: Future[Reply] = Future()
        try:
            future.set_result(work(*args))
        except Exception as err:
            future.set_exception(err)
        return future

    # -- one round ---------------------------------------------------------------------------

    def _receive(self, play: _Play, future: Future[Reply]) -> Episode | None:
        """Take in an environment's reply; returns the episode if it ended."""
        try:
            messages, info = future.result()
        except UsageError:
            raise
        except Exception as err:
            return self._fail(play, err)
        play.transcript += [{"role": m.role, "content": m.content} for m in messages]
        play.actions += info.get("executed", ())
        if "outcome" in info:
            return self._finish(play, info["outcome"])
        if play.turns == 0:
            play.task, play.tools = info["task"], info["tools"]
            self._policy.begin(play.index, play.task, play.tools, play.job.seed)
            play.conversing = True
        else:
            self._policy.observe(play.index, messages)
        limit = self._passed_limit(play)
        return None if limit is None else self._stop(play, limit)

    def _passed_limit(self, play: _Play) -> Termination | None:
        if self._policy.context_tokens(play.index) >= self.limits.max_tokens:
            return Termination.TOKEN_LIMIT
        seconds = self.limits.max_seconds
        if seconds is not None and time.perf_counter() - play.started > seconds:
            return Termination.TIMEOUT
        return None

    def _note_turn(self, play: _Play, turn: Turn) -> None:
        play.turns += 1
        play.generation_s += turn.generation_s
        play.parse_errors += turn.message.parse_error is not None
        play.transcript.append(_plain(turn.message))

    def _stop(self, play: _Play, reason: Termination) -> Episode:
        try:
            return self._finish(play, play.env.finish(reason))
        except Exception as err:
            return self._fail(play, err)

    def _finish(self, play: _Play, outcome: Outcome) -> Episode:
        self._idle.append(play.env)
        return self._record(play, outcome)

    def _fail(self, play: _Play, err: Exception) -> Episode:
        """Mark an episode failed; its environment may be broken, so it is not used again."""
        error = f"{type(err).__name__}: {err}"
        try:
            play.env.close()
        except Exception as close_err:
            error += f" (and closing it: {close_err})"
        return self._record(play, Outcome(None, False, Termination.INFRASTRUCTURE, error=error))

    def _close_conversation(self, play: _Play) -> Recording | None:
        # A Ctrl-C can come at any moment: what began halfway, or has ended, is not ended (again).
        conversing, play.conversing = play.conversing, False
        return self._policy.end(play.index) if conversing else None

    def _record(self, play: _Play, outcome: Outcome) -> Episode:
        tokens = self._close_conversation(play) or empty_recording()
        wall_s = time.perf_counter() - play.started
        task = play.task
        return Episode(
            task_id=play.job.task_id,
            env=play.env.label,
            split=task.split if task else play.env.split,
            group=task.group if task else "",
            instruction=task.instruction if task else "",
            attempt=play.job.attempt,
            seed=play.job.seed,
            policy_version=self._policy.version,
            sampling=self._sampling,
            token_ids=tokens.token_ids,
            loss_mask=tokens.loss_mask,
            logprobs=tokens.logprobs,
            turn_index=tokens.turn_index,
            prefix_len=tokens.prefix_len,
            outcome=outcome,
            transcript=tuple(play.transcript),
            actions=tuple(play.actions),
            tools=play.tools,
            turns=play.turns,
            parse_errors=play.parse_errors,
            timings=Timings(wall_s, play.generation_s, play.environment_s),
            isolation=play.env.isolation,
        )


def _reset(play: _Play) -> Reply:
    started = time.perf_counter()
    reply = play.env.reset(seed=play.job.seed, options={"task": play.job.task_id})
    play.environment_s += time.perf_counter() - started
    return reply


def _step(play: _Play, action: AssistantMessage) -> Reply:
    started = time.perf_counter()
    messages, _, _, _, info = play.env.step(action)
    play.environment_s += time.perf_counter() - started
    return messages, info


def _plain(message: AssistantMessage) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.reasoning:
        plain["reasoning"] = message.reasoning
    if message.tool_calls:
        calls = [{"name": c.name, "arguments": dict(c.arguments)} for c in message.tool_calls]
        plain["tool_calls"] = calls
    if message.parse_error is not None:
        plain["parse_error"] = message.parse_error
    return plain
