"""Running candidates: each way to fail has its verdict, and the next candidate is right again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lopd_envs.code.calls import Candidate, call_all, judge_calls
from lopd_envs.code.driver import decode, encode
from lopd_envs.code.verdicts import Judgement, Verdict
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.errors import InfrastructureError
from lopd_gym.sandbox import Limits, RunResult, Sandbox, Session, SessionDied

SANDBOX = ProcessSandbox()
GOOD = "def f(x):\n    return x + 1\n"


def judge(
    code: str,
    values: Sequence[Any] = (1, 2, 3),
    cpu_s: float = 0.5,
    sandbox: Sandbox = SANDBOX,
) -> Judgement:
    inputs = [encode([v]) for v in values]
    return judge_calls(
        sandbox,
        Candidate(code, "f"),
        inputs,
        [cpu_s] * len(inputs),
        lambda index, value: bool(value == values[index] + 1),
    )


VERDICTS = [
    (GOOD, Verdict.ACCEPTED, 3),
    ("def f(x):\n    return x + (x < 3)", Verdict.WRONG_ANSWER, 2),
    ("def f(x):\n    return None", Verdict.WRONG_ANSWER, 0),
    ("def f(x):\n    return 6 / (3 - x) - 1 if x > 1 else 2", Verdict.WRONG_ANSWER, 1),
    ("def f(x):\n    return [][x]", Verdict.RUNTIME_ERROR, 0),
    ("import sys\ndef f(x):\n    sys.exit(0)", Verdict.RUNTIME_ERROR, 0),
    ("import os\ndef f(x):\n    os._exit(0)", Verdict.RUNTIME_ERROR, 0),
    ("def f(x):\n    return f(x)", Verdict.RUNTIME_ERROR, 0),
    ("def f(x) return x", Verdict.COMPILE_ERROR, 0),
    ("\0", Verdict.COMPILE_ERROR, 0),
    ("(" * 10_000, Verdict.COMPILE_ERROR, 0),
    ("def g(x):\n    return x", Verdict.RUNTIME_ERROR, 0),
    ("f = 3", Verdict.RUNTIME_ERROR, 0),
    ("raise ValueError", Verdict.RUNTIME_ERROR, 0),
    ("", Verdict.RUNTIME_ERROR, 0),
    ("def f(x):\n    return [0] * (1 << 40)", Verdict.MEMORY_LIMIT, 0),
    ("def f(x):\n    return 'a' * (1 << 26)", Verdict.OUTPUT_LIMIT, 0),
    ("def f(x):\n    while True: pass", Verdict.TIME_LIMIT, 0),
    ("import time\ndef f(x):\n    time.sleep(99)", Verdict.TIME_LIMIT, 0),
    (
        "def f(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass",
        Verdict.TIME_LIMIT,
        0,
    ),
]


@pytest.mark.parametrize(("code", "verdict", "passed"), VERDICTS)
def test_verdicts(code: str, verdict: Verdict, passed: int) -> None:
    found = judge(code)
    assert (found.verdict, found.passed, found.total) == (verdict, passed, 3)


def test_a_candidate_that_kills_itself_is_not_taken_for_broken_machinery() -> None:
    # Without control groups nobody can tell it from what the kernel does about lack of memory.
    found = judge("import os, signal\ndef f(x):\n    os.kill(0, signal.SIGKILL)")
    assert found.verdict in (Verdict.MEMORY_LIMIT, Verdict.RUNTIME_ERROR)


def test_verdicts_in_isolation_and_the_next_candidate_is_right(isolating: Sandbox) -> None:
    with isolating.lease() as lease:
        for code, verdict, passed in VERDICTS:
            found = judge(code, sandbox=lease)
            assert (found.verdict, found.passed) == (verdict, passed), code
            assert judge(GOOD, sandbox=lease).accepted, code


def test_a_candidate_that_blocks_the_signals_meets_the_hosts_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lopd_envs.code.calls._MARGIN_S", 0.5)
    code = (
        "import signal\ndef f(x):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass"
    )
    started = time.monotonic()
    assert judge(code, cpu_s=0.2).verdict is Verdict.TIME_LIMIT
    assert time.monotonic() - started < 20


def test_what_a_candidate_prints_is_not_an_answer() -> None:
    code = (
        "import os, sys\nprint('x' * 100_000)\ndef f(x):\n    print('{}', flush=True)\n"
        "    os.write(1, b'abc'); sys.stderr.write('no')\n    return x + 1"
    )
    assert judge(code).accepted


def test_a_candidate_that_writes_answers_itself_is_judged_by_them() -> None:
    forge = (
        "import os, json, struct\ndef f(x):\n"
        "    answer = json.dumps({answer}).encode()\n"
        "    for fd in range(3, 20):\n        try:\n"
        "            os.write(fd, struct.pack('>I', len(answer)) + answer)\n"
        "        except OSError: pass\n    os._exit(0)"
    )
    for answer in (
        "{'results': [{'verdict': 'accepted'}]}",
        "{'results': [{'verdict': 'infrastructure'}]}",
        "{'results': []}",
        "{'results': [{'value': '2'}] * 9}",
        "{'results': [{'value': 2}]}",
        "{'results': [{'value': '2', 'cpu_s': 'no'}]}",
        "{'verdict': 'accepted'}",
        "[1]",
        "'accepted'",
    ):
        found = judge(forge.replace("{answer}", answer))
        assert found.verdict is Verdict.RUNTIME_ERROR, answer
    found = judge(forge.replace("{answer}", "{'results': [{'value': '7'}]}"))
    assert found.verdict is Verdict.WRONG_ANSWER


def test_limits_count_processor_time_not_waiting() -> None:
    code = "import threading, time\ndef f(x):\n    time.sleep(0.6)\n    return x + 1"
    assert judge(code, [1], cpu_s=0.3).accepted


def test_all_inputs_together_have_a_limit() -> None:
    code = (
        "import time\ndef f(x):\n    end = time.process_time() + 0.1\n"
        "    while time.process_time() < end: pass\n    return x + 1"
    )
    inputs = [encode([i]) for i in range(10)]
    arguments = (ProcessSandbox(), Candidate(code, "f"), inputs, [1.0] * 10)
    found = judge_calls(*arguments, lambda i, v: True, total_cpu_s=0.35)
    assert found.verdict is Verdict.TIME_LIMIT
    assert found.passed == 3


def test_many_inputs_and_large_values_come_back_in_order() -> None:
    inputs = [encode([i]) for i in range(300)]
    code = "def f(x):\n    return [x] * (1 + 50_000 * (x % 10 == 0))"
    calls = call_all(ProcessSandbox(), Candidate(code, "f"), inputs, [1.0] * 300)
    assert [decode(c.value or "")[0] for c in calls] == list(range(300))


def test_no_test_is_no_pass() -> None:
    with pytest.raises(ValueError, match="without a single test"):
        judge(GOOD, [])


def test_methods_and_preambles() -> None:
    inputs = [encode([1])]
    code = "class Solution:\n    def f(self, x: List[int]): return math.floor(x)"
    candidate = Candidate(code, "Solution.f", "import math\nfrom typing import List")
    (call,) = call_all(ProcessSandbox(), candidate, inputs, [1.0])
    assert call.value == "1"
    candidate = Candidate("from __future__ import annotations\ndef f(x): return 2", "Solution.f")
    (call,) = call_all(ProcessSandbox(), candidate, inputs, [1.0])
    assert call.value == "2"


def test_parallel_and_serial_runs_agree() -> None:
    codes = [GOOD, "def f(x):\n    return x", "def f(x):\n    return 1 / 0"] * 3
    serial = [judge(code, cpu_s=4.0).verdict for code in codes]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda code: judge(code, cpu_s=4.0).verdict, codes)) == serial


class Flaky:
    """A sandbox that breaks the first times."""

    name = "flaky"

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error = failures, error

    def run(
        self,
        files: Mapping[str, bytes],
        argv: Sequence[str],
        stdin: bytes = b"",
        limits: Limits | None = None,
    ) -> RunResult:
        raise NotImplementedError

    def session(self, program: bytes, limits: Limits | None = None) -> Session:
        self.failures -= 1
        if self.failures >= 0:
            if isinstance(self.error, InfrastructureError):
                raise self.error
            return ProcessSandbox().session(b"raise SystemExit", limits)
        return ProcessSandbox().session(program, limits)


@pytest.mark.parametrize("error", [InfrastructureError("no daemon"), SessionDied("gone")])
def test_broken_machinery_is_tried_again_and_never_a_verdict(error: Exception) -> None:
    arguments = (Candidate(GOOD, "f"), [encode([1])], [1.0], lambda i, v: v == 2)
    assert judge_calls(Flaky(2, error), *arguments).accepted
    with pytest.raises(InfrastructureError):
        judge_calls(Flaky(3, error), *arguments)
