"""The host's side of the worker: an open episode that survives the loss of its process.

The worker is deterministic, so a lost process is replaced by replaying the episode's executed
calls in a new one. A call that took its process along is never replayed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lopd_envs.envscaler import worker
from lopd_gym.errors import InfrastructureError
from lopd_gym.messages import ToolSpec
from lopd_gym.sandbox import Limits, Sandbox, Session, SessionDied, SessionTimeout
from lopd_gym.tasks import Check, Termination
from lopd_gym.tools import ToolResult, error_text

WORKER_LIMITS = Limits(wall_s=10.0, memory_mib=512, processes=1)
"""Tools take microseconds and checks well under a second, also on a busy machine."""


class Worker:
    """One session of the worker program: started when needed, replaced when lost."""

    def __init__(self, sandbox: Sandbox, limits: Limits = WORKER_LIMITS) -> None:
        self._sandbox = sandbox
        self._limits = limits
        self._session: Session | None = None

    @property
    def alive(self) -> bool:
        """Whether the process that got the last request still runs."""
        return self._session is not None and self._session.alive

    def request(self, message: Mapping[str, Any]) -> Any:
        """Send a request, starting the process if there is none; raises as `Session` does."""
        if self._session is None or not self._session.alive:
            self.close()
            program = Path(worker.__file__).read_bytes()
            self._session = self._sandbox.session(program, self._limits)
        return self._session.request(message)

    def close(self) -> None:
        """End the process; the next request starts a new one."""
        if self._session is not None:
            self._session.close()
            self._session = None


class WorkerTools:
    """The tools and checks of one open episode; a `lopd_gym.tools.Toolset`.

    ``opening`` is the worker's ``open`` request.

    Raises:
        InfrastructureError: The episode cannot be opened.
    """

    def __init__(
        self, worker: Worker, opening: Mapping[str, Any], specs: Sequence[ToolSpec]
    ) -> None:
        self._worker = worker
        self._opening = opening
        self._specs = tuple(specs)
        self._names = frozenset(spec.name for spec in specs)
        self._calls: list[dict[str, Any]] = []
        self._replay()

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools of the schema, in its order."""
        return self._specs

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Execute one call. One that hangs or exhausts the memory loses the episode's state.

        Raises:
            InfrastructureError: The worker died, twice, for no reason of the call's.
        """
        if name not in self._names or name.startswith("_"):
            return ToolResult(error_text(f"unknown tool {name!r}"), refused=True)
        unreadable = ToolResult(error_text("the arguments are not a JSON object"), refused=True)
        try:
            own = json.loads(json.dumps(dict(arguments or {})))
        except (TypeError, ValueError, RecursionError):
            return unreadable
        request = {"op": "call", "name": name, "arguments": own}
        try:
            answer = self._ask(request)
        except RecursionError:  # nested so deeply that only the request around them was too much
            return unreadable
        except SessionTimeout:
            return _lost(f"{name} took too long", Termination.TIMEOUT)
        except SessionDied:
            return _lost(f"{name} ran out of memory", Termination.TOOL_EXCEPTION)
        if "refused" in answer:
            return ToolResult(error_text(answer["refused"]), refused=True)
        self._calls.append(request)
        if "raised" in answer:
            return ToolResult(error_text(answer["raised"]), raised=answer["raised"])
        return ToolResult(answer["observation"])

    def verify(self, checks: Sequence[tuple[str, str]]) -> tuple[Check, ...]:
        """Evaluate checks, given as (name, source), on the current state without changing it.

        Raises:
            InfrastructureError: The worker died, twice, for no reason of a check's.
        """
        sources = [source for _, source in checks]
        try:
            results = self._ask({"op": "check", "checks": sources})
        except (SessionTimeout, SessionDied):  # one of them; the others still count
            results = [self._check_alone(source) for source in sources]
        pairs = zip(checks, results, strict=True)
        return tuple(Check(name, passed, error) for (name, _), (passed, error) in pairs)

    def _check_alone(self, source: str) -> tuple[bool, str | None]:
        try:
            passed, error = self._ask({"op": "check", "checks": [source]})[0]
        except SessionTimeout:
            return False, "timeout"
        except SessionDied:
            return False, "out of memory"
        return passed, error

    def _ask(self, request: Mapping[str, Any]) -> Any:
        """Send a request; a process that dies is replaced once, for it may have been an accident.

        Raises:
            SessionTimeout: The request takes too long.
            SessionDied: The request exhausts the memory, twice.
            InfrastructureError: The process died twice for no reason of the request's.
        """
        try:
            if not self._worker.alive:
                self._replay()
            return self._worker.request(request)
        except SessionDied:
            self._replay()
        try:
            return self._worker.request(request)
        except SessionDied as err:
            if err.memory_killed:
                raise
            raise InfrastructureError(f"The EnvScaler worker died twice: {err}") from err

    def _replay(self) -> None:
        """Open the episode and execute its calls so far."""
        try:
            answer = self._worker.request(self._opening)
            if "error" not in answer:
                for call in self._calls:
                    self._worker.request(call)
        except (SessionTimeout, SessionDied) as err:
            raise InfrastructureError(f"The EnvScaler worker failed: {err}") from err
        if "error" in answer:
            raise InfrastructureError(
                f"The initial state of {self._opening['class_name']} cannot be built: "
                f"{answer['error']}"
            )


def _lost(reason: str, ending: Termination) -> ToolResult:
    return ToolResult(error_text(reason), raised=reason, lost=ending)
