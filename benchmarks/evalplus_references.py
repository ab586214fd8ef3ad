"""Every EvalPlus reference is judged by its own tests, and so is a function that returns None.

    python -m benchmarks.evalplus_references PATH [SANDBOX]

PATH is a folder with the releases, or one file. All references must pass and no None may; the
exit code says whether that holds.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from lopd_envs.evalplus.corpus import Problem, load_corpus
from lopd_envs.evalplus.grading import Grader

from benchmarks.report import report
from lopd_gym.cli.console import console
from lopd_gym.cli.progress import ConsoleReporter
from lopd_gym.isolation import STRONGEST, open_sandbox
from lopd_gym.sandbox import Sandbox


def main() -> None:
    corpus = load_corpus(Path(sys.argv[1]))
    sandbox = open_sandbox(sys.argv[2] if len(sys.argv) > 2 else STRONGEST)
    wrong: list[str] = []
    left_out, seconds = {}, {}
    reporter = ConsoleReporter(console())
    with reporter.phase("judge references", len(corpus.problems)) as phase:
        for problem in corpus.problems.values():
            started = time.perf_counter()
            complaints, left_out[problem.id] = judge(problem, sandbox)
            wrong += complaints
            seconds[problem.id] = time.perf_counter() - started
            phase.advance(note=f"{len(wrong)} wrong")
    slowest = max(seconds, key=lambda i: seconds[i])
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ours, largest = (resource.getrusage(w).ru_maxrss / 1024 for w in who)
    report(
        f"EvalPlus references in {sandbox.name} ({sandbox.isolation.label})",
        {
            "problems": (len(seconds), None),
            "wrong verdicts": (len(wrong), 0),
            "inputs left out, too large even for the reference": (sum(left_out.values()), None),
            "minutes in all": (sum(seconds.values()) / 60, None),
            f"seconds of the slowest, {slowest}": (seconds[slowest], None),
            "peak MiB of this process": (ours, None),
            "peak MiB of a process that it started": (largest, None),
        },
    )
    for line in wrong + [f"{i}: {n} inputs left out" for i, n in left_out.items() if n]:
        print(line)
    sys.exit(bool(wrong))


def judge(problem: Problem, sandbox: Sandbox) -> tuple[list[str], int]:
    """Return what is wrong about a problem's verdicts, and how many inputs were left out."""
    grader = Grader()  # of its own, so that what the reference returned is not kept
    nothing = f"def {problem.entry_point}(*arguments):\n    return None\n"
    complaints = []
    with sandbox.lease() as lease:
        right = grader.grade(problem, problem.reference, lease)
        if not right.plus_passed:
            complaints.append(f"{problem.id}: the reference: {right.judgement}")
        wrong = grader.grade(problem, nothing, lease)
        if wrong.base_passed or wrong.plus_passed:
            complaints.append(f"{problem.id}: None passes")
        return complaints, grader.tests(problem, lease).left_out


if __name__ == "__main__":
    main()
