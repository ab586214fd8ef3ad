"""Call a candidate function on inputs in a sandbox; our side of `driver.py`.

Expected outputs are not known here. What comes back is a value for each input, until one fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lopd_envs.code import driver
from lopd_envs.code.attempts import attempt
from lopd_envs.code.verdicts import Judgement, Verdict
from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Limits, Sandbox, Session, SessionDied, SessionTimeout

T = TypeVar("T")

CALL_LIMITS = Limits(wall_s=30.0, memory_mib=2048, processes=16, output_bytes=16 << 20)
LOAD_CPU_S = 10.0
"""How long the top level of a candidate may take."""

_START_S = 30.0
_MARGIN_S = 5.0
"""Wall time on top of a limit: for the way there and back, and for encoding values."""

_BATCH = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """Code that defines ``entry_point``, a function's name or ``Class.method``.

    ``preamble`` is trusted code that runs first in the candidate's module.
    """

    code: str
    entry_point: str
    preamble: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """What came of one input: an encoded value, or the verdict that ended it all.

    ``cpu_s`` is processor time as measured next to the candidate: good for calibrating by a
    reference solution, no evidence against a candidate that wants to hide it.
    """

    value: str | None = None
    cpu_s: float = 0.0
    verdict: Verdict = Verdict.ACCEPTED
    detail: str = ""


def call_all(
    sandbox: Sandbox, candidate: Candidate, inputs: Sequence[str], cpu_s: Sequence[float]
) -> list[Call]:
    """Call the candidate on encoded argument lists, in order, until one call fails.

    Args:
        sandbox: Where to run it.
        candidate: What to run.
        inputs: Encoded lists of arguments.
        cpu_s: Limit on processor time for each input; three times as much wall time is allowed.

    Returns:
        One result for each input up to the first that failed. A candidate that cannot even be
        loaded has that one result.

    Raises:
        InfrastructureError: The machinery broke, again and again.
    """

    def play(session: Session) -> list[Call]:
        return [c for batch in _batches(session, candidate, inputs, cpu_s) for c in batch]

    return _with_session(sandbox, play)


def judge_calls(
    sandbox: Sandbox,
    candidate: Candidate,
    inputs: Sequence[str],
    cpu_s: Sequence[float],
    accepts: Callable[[int, Any], bool],
    total_cpu_s: float = math.inf,
) -> Judgement:
    """Call the candidate as `call_all` does and compare each value, up to the first that fails.

    Args:
        sandbox: Where to run it.
        candidate: What to run.
        inputs: Encoded lists of arguments.
        cpu_s: Limit on processor time for each input.
        accepts: Whether the value for the input with this index is right.
        total_cpu_s: Limit on processor time for all inputs together.

    Raises:
        InfrastructureError: The machinery broke, again and again.
        ValueError: There are no inputs: nothing is not a pass.
    """
    if not inputs:
        raise ValueError("A candidate cannot be judged without a single test.")

    def play(session: Session) -> Judgement:
        passed, spent = 0, 0.0
        for batch in _batches(session, candidate, inputs, cpu_s):
            for call in batch:
                spent += call.cpu_s
                verdict = call.verdict
                if verdict is Verdict.ACCEPTED and spent > total_cpu_s:
                    verdict = Verdict.TIME_LIMIT
                if verdict is Verdict.ACCEPTED and not _accepted(accepts, passed, call):
                    verdict = Verdict.WRONG_ANSWER
                if verdict is not Verdict.ACCEPTED:
                    return Judgement(verdict, passed, len(inputs), call.detail)
                passed += 1
        return Judgement(Verdict.ACCEPTED, passed, len(inputs))

    return _with_session(sandbox, play)


def _accepted(accepts: Callable[[int, Any], bool], index: int, call: Call) -> bool:
    try:
        return accepts(index, driver.decode(call.value or ""))
    except driver.Malformed:
        return False


def _with_session(sandbox: Sandbox, play: Callable[[Session], T]) -> T:
    def act() -> T:
        with closing(start_session(sandbox)) as session:
            return play(session)

    return attempt(act)


def start_session(sandbox: Sandbox) -> Session:
    """Start the driver in a sandbox and see that it answers.

    Raises:
        InfrastructureError: It does not; no candidate was involved yet.
    """
    session = sandbox.session(Path(driver.__file__).read_bytes(), CALL_LIMITS)
    try:
        session.request({"op": "hello"}, _START_S)
    except (SessionDied, SessionTimeout) as err:
        session.close()
        raise InfrastructureError(f"The code driver does not start: {err}") from err
    return session


def _batches(
    session: Session, candidate: Candidate, inputs: Sequence[str], cpu_s: Sequence[float]
) -> Iterator[list[Call]]:
    """Yield results in batches. Batches grow, so that a candidate that hangs is soon found."""
    load = {
        "op": "load",
        "preamble": candidate.preamble,
        "code": candidate.code,
        "entry_point": candidate.entry_point,
        "cpu_s": LOAD_CPU_S,
    }
    loaded = _ask(session, load, LOAD_CPU_S)
    if loaded.verdict is not Verdict.ACCEPTED:
        yield [loaded]
        return
    done, size = 0, 1
    while done < len(inputs):
        part = slice(done, done + size)
        request = {"op": "call", "inputs": inputs[part], "cpu_s": cpu_s[part]}
        calls = _ask_for_calls(session, request, sum(cpu_s[part]))
        yield calls
        if calls[-1].verdict is not Verdict.ACCEPTED:
            return
        done, size = done + len(calls), min(2 * size, _BATCH)


def _ask(session: Session, request: dict[str, Any], cpu_s: float) -> Call:
    answer = _answer(session, request, cpu_s)
    return answer if isinstance(answer, Call) else _read_call(answer)


def _ask_for_calls(session: Session, request: dict[str, Any], cpu_s: float) -> list[Call]:
    answer = _answer(session, request, cpu_s)
    if isinstance(answer, Call):
        return [answer]
    results = answer.get("results")
    if not isinstance(results, list) or not 0 < len(results) <= len(request["inputs"]):
        return [_SPOILT]
    calls = [_read_call(r) for r in results]
    if any(c.value is None and c.verdict is Verdict.ACCEPTED for c in calls):
        return [_SPOILT]
    return calls


def _answer(session: Session, request: dict[str, Any], cpu_s: float) -> dict[str, Any] | Call:
    try:
        answer = session.request(request, driver.WALL_PER_CPU * cpu_s + _MARGIN_S)
    except SessionTimeout:
        return Call(verdict=Verdict.TIME_LIMIT, detail="out of time")
    except SessionDied as err:
        if err.memory_killed:
            return Call(verdict=Verdict.MEMORY_LIMIT, detail="out of memory")
        return Call(verdict=Verdict.RUNTIME_ERROR, detail=f"the process ended: {err}"[:500])
    return answer if isinstance(answer, dict) else _SPOILT


_SPOILT = Call(verdict=Verdict.RUNTIME_ERROR, detail="the candidate disturbed its own answers")


def _read_call(plain: Any) -> Call:
    """Read a result that a candidate may have written itself."""
    try:
        verdict = Verdict(plain.get("verdict", Verdict.ACCEPTED))
        value = plain.get("value")
        seconds = float(plain.get("cpu_s", 0.0))
        detail = str(plain.get("detail", ""))[:500]
    except (AttributeError, TypeError, ValueError):
        return _SPOILT
    if verdict is Verdict.INFRASTRUCTURE or not (value is None or isinstance(value, str)):
        return _SPOILT
    return Call(value, seconds, verdict, detail)
