"""Correct programs that fail in graders which mock standard input, and wrong ones that pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lopd_envs.code.verdicts import Judgement, Verdict
from lopd_envs.livecodebench import grading
from lopd_envs.livecodebench.compare import Comparison
from lopd_envs.livecodebench.corpus import load_corpus
from lopd_envs.livecodebench.grading import judge
from lopd_sandboxes.process import ProcessSandbox

from lopd_gym.errors import DataError
from lopd_gym.sandbox import Sandbox
from tests.lopd_envs.livecodebench.rows import functional, row, write

SANDBOX = ProcessSandbox()


def judge_row(
    folder: Path,
    plain: dict[str, object],
    code: str,
    comparison: Comparison = "official",
    sandbox: Sandbox = SANDBOX,
) -> Judgement:
    (problem,) = load_corpus(write(folder, plain)).problems.values()
    return judge(sandbox, problem, code, problem.tests(), comparison)


def sum_of_lines(folder: Path, code: str, sandbox: Sandbox = SANDBOX) -> Judgement:
    """A task whose input is any number of lines with a number each."""
    public = [{"input": "1\n2\n3\n", "output": "6\n", "testtype": "stdin"}]
    private = [{"input": "10\n-4\n", "output": "6\n", "testtype": "stdin"}]
    tests = {"public_test_cases": public, "private_test_cases": private}
    plain = row(**{k: json.dumps(v) for k, v in tests.items()})
    return judge_row(folder, plain, code, sandbox=sandbox)


CORRECT = [
    "print(sum(int(line) for line in sys.stdin))",
    "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))",
    "total = 0\nwhile line := sys.stdin.buffer.readline():\n    total += int(line)\n"
    "sys.stdout.buffer.write(str(total).encode())",
    "print(sum(map(int, open(0).read().split())))",
    "import os\ndata = b''\nwhile part := os.read(0, 3):\n    data += part\n"
    "print(sum(map(int, data.split())))",
    "total = 0\ndef add(n):\n    global total\n    total += n\n"
    "for line in sys.stdin: add(int(line))\nprint(total)",
    "from __future__ import annotations\nimport sys\nprint(sum(map(int, sys.stdin)))",
    "import os, sys\nprint(sum(map(int, sys.stdin)), flush=True)\nos._exit(0)",
    "def main():\n    print(sum(map(int, sys.stdin.read().split())))\n\n"
    "if __name__ == '__main__':\n    main()",
    "import threading\ndef main():\n    print(sum(map(int, sys.stdin)))\n"
    "threading.Thread(target=main).start()",
    "import sys\ninput = sys.stdin.readline\ntotal = 0\nfor line in iter(input, ''):\n"
    "    total += int(line)\nprint(total)\nsys.exit()",
    "total = 0\ntry:\n    while True: total += int(input())\nexcept EOFError: print(total)",
    "def deep(n): return 0 if n == 0 else 1 + deep(n - 1)\nassert deep(20_000) == 20_000\n"
    "print(sum(map(int, sys.stdin)))",
    "from dataclasses import dataclass\n@dataclass\nclass Box:\n    n: int\n"
    "print(sum(Box(int(line)).n for line in sys.stdin))",
    "print(reduce(operator.add, map(int, sys.stdin)))",
    "assert pow(3, 2, 5) == 4\nprint(sum(map(int, sys.stdin)))",
]


@pytest.mark.parametrize("code", CORRECT)
def test_real_pipes_for_whole_programs(tmp_path: Path, code: str) -> None:
    found = sum_of_lines(tmp_path, code)
    assert found.accepted, found


def test_real_pipes_in_isolation(tmp_path: Path, isolating: Sandbox) -> None:
    with isolating.lease() as lease:
        for code in CORRECT:
            found = sum_of_lines(tmp_path, code, lease)
            assert found.accepted, (code, found)


FAILING = [
    ("print(7)", Verdict.WRONG_ANSWER),
    ("", Verdict.WRONG_ANSWER),
    ("print(6); raise SystemExit(1)", Verdict.RUNTIME_ERROR),
    ("print(6); 1 / 0", Verdict.RUNTIME_ERROR),
    ("import os\nprint(6, flush=True)\nos.abort()", Verdict.RUNTIME_ERROR),
    ("print(6", Verdict.COMPILE_ERROR),
    ("a\0b", Verdict.COMPILE_ERROR),
    ("print(6)\nwhile True: pass", Verdict.TIME_LIMIT),
    ("import time\nprint(6, flush=True)\ntime.sleep(99)", Verdict.TIME_LIMIT),
    ("while True:\n    try:\n        while True: pass\n    except: pass", Verdict.TIME_LIMIT),
    ("x = bytearray(1 << 40)", Verdict.MEMORY_LIMIT),
    ("import sys\nfor _ in range(40): sys.stdout.write('6' * (1 << 20))", Verdict.OUTPUT_LIMIT),
    ("import sys\nsys.stdout.buffer.write(b'\\xff\\x00')", Verdict.WRONG_ANSWER),
]


def check_verdict(folder: Path, code: str, verdict: Verdict, sandbox: Sandbox = SANDBOX) -> None:
    found = sum_of_lines(folder, code, sandbox)
    assert (found.verdict, found.passed) == (verdict, 0), (code, found)


@pytest.mark.parametrize(("code", "verdict"), FAILING)
def test_verdicts_on_whole_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, verdict: Verdict
) -> None:
    monkeypatch.setattr(grading, "CPU_S", 0.5 if verdict is Verdict.TIME_LIMIT else 6.0)
    check_verdict(tmp_path, code, verdict)


def test_verdicts_in_isolation_and_then_a_program_that_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolating: Sandbox
) -> None:
    with isolating.lease() as lease:
        for code, verdict in FAILING:
            monkeypatch.setattr(grading, "CPU_S", 0.5 if verdict is Verdict.TIME_LIMIT else 6.0)
            check_verdict(tmp_path, code, verdict, lease)
        monkeypatch.setattr(grading, "CPU_S", 6.0)
        assert sum_of_lines(tmp_path, CORRECT[0], lease).accepted


def test_tests_do_not_share_anything(tmp_path: Path) -> None:
    code = (
        "import os, sys\nseen = os.listdir('.')\nopen('memory', 'w').close()\n"
        "print(sum(map(int, sys.stdin)) if 'memory' not in seen else 'remembered')"
    )
    assert sum_of_lines(tmp_path, code).accepted


def test_large_input_and_output(tmp_path: Path) -> None:
    line = "7" * (4 << 20)
    tests = json.dumps([{"input": f"{line}\n", "output": line, "testtype": "stdin"}])
    plain = row(public_test_cases=tests, private_test_cases=tests)
    for code in (
        "print(input())",
        "import time\ntime.sleep(0.3)\nprint(sys.stdin.readline(), end='')",
        "print(input()[::-1])",
    ):
        assert judge_row(tmp_path, plain, code).accepted
    digits = json.dumps([{"input": "60000\n", "output": "1" + "0" * 60_000, "testtype": "stdin"}])
    plain = row(public_test_cases=digits, private_test_cases=digits, question_id="b")
    assert judge_row(tmp_path, plain, "print(10 ** int(input()))").accepted


@pytest.mark.parametrize(
    ("code", "official", "strict"),
    [
        ("class Solution:\n    def f(self, x):\n        return [(x / 3, x)]", True, True),
        (
            "class Solution:\n    def f(self, x: List[int]):\n        return [[x / 3, x]]",
            True,
            True,
        ),
        ("class Solution:\n    def f(self, x):\n        return [[0.33333333, x]]", False, True),
        ("class Solution:\n    def f(self, x):\n        return [[x / 3, True]]", True, False),
        ("# class Solution\ndef f(x):\n    return [[x / 3, x]]", True, True),
        ("class Solution:\n    def f(self, x):\n        return None", False, False),
        ("class Solution:\n    def g(self, x):\n        return [[x / 3, x]]", False, False),
        ("class Solution:\n    def __init__(self, y): pass\n    f = 3", False, False),
        ("class Solution:\n    def f(self): return 1", False, False),
        (
            "class Any:\n    def __eq__(self, other): return True\n"
            "class Solution:\n    def f(self, x): return Any()",
            False,
            False,
        ),
        (
            "class Any(list):\n    def __eq__(self, other): return True\n"
            "class Solution:\n    def f(self, x): return Any()",
            False,
            False,
        ),
        (
            "import sys\nclass Solution:\n    def f(self, x):\n        frame = sys._getframe()\n"
            "        while frame:\n            for k, v in frame.f_locals.items():\n"
            "                if 'expect' in k or 'output' in k: return v\n"
            "            frame = frame.f_back",
            False,
            False,
        ),
    ],
)
def test_methods(tmp_path: Path, code: str, official: bool, strict: bool) -> None:
    plain = functional([("1", "[[0.3333333333333333, 1]]")], [("1", "[[0.3333333333333333, 1]]")])
    assert judge_row(tmp_path, plain, code).accepted is official
    assert judge_row(tmp_path, plain, code, "strict").accepted is strict


def test_one_instance_serves_all_tests_and_arguments_are_one_a_line(tmp_path: Path) -> None:
    plain = functional([('[1, 2]\n"a"', "[2, 1]")], [('[3]\n"b"', "[1, 2]")])
    code = (
        "class Solution:\n    calls = 0\n    def f(self, numbers, text):\n"
        "        self.calls += 1\n        return [len(numbers), self.calls]"
    )
    assert judge_row(tmp_path, plain, code).accepted


def test_no_test_is_no_pass_and_broken_tests_are_no_verdict(tmp_path: Path) -> None:
    (problem,) = load_corpus(write(tmp_path, row())).problems.values()
    with pytest.raises(ValueError, match="without a single test"):
        judge(SANDBOX, problem, "print(3)", (), "official")
    with pytest.raises(DataError, match="not JSON"):
        judge_row(tmp_path, functional([("1", "[[")], [("1", "1")]), "def f(x): return 1")


def test_the_sample_of_the_benchmark(data_folder: Path) -> None:
    problems = load_corpus(data_folder / "code" / "livecodebench_sample.jsonl").problems
    solutions = {
        "1873_A": "for _ in range(int(input())):\n"
        "    print('NO' if input() in ('bca', 'cab') else 'YES')",
        "2727": "class Solution:\n    def countSeniors(self, details: List[str]) -> int:\n"
        "        return sum(int(d[11:13]) > 60 for d in details)",
        "abc301_a": "n, s = int(input()), input()\nt, a = s.count('T'), s.count('A')\n"
        "print('T' if t > a or (t == a and s[-1] == 'A') else 'A')",
    }
    assert solutions.keys() == problems.keys()
    for task_id, problem in problems.items():
        tests = problem.tests()[:4]
        assert judge(SANDBOX, problem, solutions[task_id], tests, "official").accepted
        assert not judge(SANDBOX, problem, "print('NO')", tests, "official").accepted
