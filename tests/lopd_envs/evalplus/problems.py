"""Real problems, cut down so that tests stay fast, and small ones made up here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from lopd_envs.evalplus.corpus import Corpus, Problem, load_corpus, read_problem


def humaneval(data_folder: Path) -> Corpus:
    """HumanEval+ Mini."""
    return load_corpus(data_folder / "code" / "HumanEvalPlus-Mini.jsonl.gz")


def mbpp(data_folder: Path, plus: int = 20) -> Corpus:
    """MBPP+ with the first few plus inputs of each task."""
    corpus = load_corpus(data_folder / "code" / "MbppPlus-NoExtreme.jsonl.gz")
    cut = {i: replace(p, plus=p.plus[:plus]) for i, p in corpus.problems.items()}
    return Corpus(cut, corpus.hash)


def row(**changes: Any) -> dict[str, Any]:
    """A row of a release for a small made-up problem."""
    return {
        "task_id": "Mbpp/999",
        "prompt": '"""\nDouble a number.\nassert double(2) == 4\n"""\n',
        "entry_point": "double",
        "canonical_solution": "\ndef double(x):\n    return 2 * x\n",
        "base_input": [[1], [2]],
        "plus_input": [[0], [-3]],
        "atol": 0,
        **changes,
    }


def problem(**changes: Any) -> Problem:
    """A small made-up problem."""
    return read_problem(json.dumps(row(**changes)), "test")
