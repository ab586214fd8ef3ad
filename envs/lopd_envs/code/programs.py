"""Run a candidate's whole program in a sandbox, on one standard input at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lopd_envs.code import launch
from lopd_envs.code.attempts import attempt
from lopd_envs.code.driver import WALL_PER_CPU
from lopd_envs.code.verdicts import Verdict
from lopd_gym.sandbox import PYTHON, Limits, RunResult, Sandbox

MEMORY_MIB = 2048
OUTPUT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Output:
    """What a program wrote, and `Verdict.ACCEPTED` if it ran to a good end; else what not."""

    verdict: Verdict
    text: str
    detail: str = ""


def run_program(
    sandbox: Sandbox, code: str, stdin: str, cpu_s: float, preamble: str = ""
) -> Output:
    """Run a program as a process of its own, with real pipes.

    Args:
        sandbox: Where to run it.
        code: The program.
        stdin: What it reads.
        cpu_s: Limit on processor time; three times as much wall time is allowed.
        preamble: Trusted code that runs first in the program's module.

    Raises:
        InfrastructureError: The machinery broke, again and again.
    """
    files = {
        "launch.py": Path(launch.__file__).read_bytes(),
        "preamble.py": preamble.encode(),
        "solution.py": code.encode(errors="surrogatepass"),
    }
    limits = Limits(
        wall_s=WALL_PER_CPU * cpu_s,
        cpu_s=cpu_s,
        memory_mib=MEMORY_MIB,
        output_bytes=OUTPUT_BYTES,
    )
    given = stdin.encode(errors="surrogatepass")
    result = attempt(lambda: sandbox.run(files, [PYTHON, "launch.py"], given, limits))
    return _read(result)


def _read(result: RunResult) -> Output:
    text = result.stdout.decode(errors="replace")
    said = result.stderr.decode(errors="replace").strip().splitlines()
    detail = said[-1][:500] if said else ""
    if result.timed_out:
        return Output(Verdict.TIME_LIMIT, text, "out of time")
    if result.memory_killed:
        return Output(Verdict.MEMORY_LIMIT, text, "out of memory")
    if result.truncated:
        return Output(Verdict.OUTPUT_LIMIT, text, f"more than {OUTPUT_BYTES >> 20} MiB of output")
    if result.exit_code == launch.COMPILE_ERROR:
        return Output(Verdict.COMPILE_ERROR, text, detail)
    if result.exit_code != 0:
        return Output(Verdict.RUNTIME_ERROR, text, detail or f"exit code {result.exit_code}")
    return Output(Verdict.ACCEPTED, text)
