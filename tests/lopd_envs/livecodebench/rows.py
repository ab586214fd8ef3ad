"""Rows in LiveCodeBench's layout, made up here."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

STDIN = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
HIDDEN = [{"input": "40 2\n", "output": "42\n", "testtype": "stdin"}]


def packed(value: Any) -> str:
    """Pack a value as upstream packs its private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def row(**changes: Any) -> dict[str, Any]:
    """A row for a whole program."""
    return {
        "question_title": "Sum",
        "question_content": "Print the sum of two numbers.",
        "platform": "atcoder",
        "question_id": "abc999_a",
        "contest_id": "abc999",
        "contest_date": "2024-09-01T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(STDIN),
        "private_test_cases": packed(json.dumps(HIDDEN)),
        "metadata": "{}",
        **changes,
    }


def functional(public: list[tuple[str, str]], private: list[tuple[str, str]]) -> dict[str, Any]:
    """A row for a method ``f``, with tests as (arguments, result) in JSON."""

    def tests(pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
        return [{"input": i, "output": o, "testtype": "functional"} for i, o in pairs]

    return row(
        question_id="9999",
        platform="leetcode",
        starter_code="class Solution:\n    def f(self, x):\n        ",
        public_test_cases=json.dumps(tests(public)),
        private_test_cases=json.dumps(tests(private)),
        metadata='{"func_name": "f"}',
    )


def write(folder: Path, *rows: dict[str, Any], name: str = "test.jsonl") -> Path:
    """Write rows as a part of a release; returns the folder."""
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder
