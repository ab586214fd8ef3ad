"""Carrying a bank around: what is not a whole file of experiences is refused, with the line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from lopd_gym.bank import Bank
from lopd_gym.errors import DataError, LopdGymError, UsageError
from tests.lopd_gym.bank.helpers import experience


def line(**changes: object) -> str:
    return json.dumps(asdict(experience(1)) | changes)


BAD_LINES = {
    "torn": (line()[:40], "line 3"),
    "no object": ("[]", "line 3"),
    "unknown field": (line(colour="red"), "line 3: .*colour"),
    "missing field": (json.dumps({"env": "shop"}), "line 3: .*split"),
    "wrong type": (line(instruction=7), "line 3: .*instruction"),
    "score out of range": (line(score=1.5), "line 3: .*score"),
    "score not a number": (line(score="1"), "line 3: .*score"),
    "not UTF-8": ("\udcff", "line 3"),
}


@pytest.mark.parametrize(("bad", "said"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_named_and_nothing_is_added(tmp_path: Path, bad: str, said: str) -> None:
    content = f"{line()}\n\n{bad}\n"
    (tmp_path / "in.jsonl").write_text(content, encoding="utf-8", errors="surrogateescape")
    with Bank.open(tmp_path / "bank") as bank:
        with pytest.raises(DataError, match=said):
            bank.import_jsonl(tmp_path / "in.jsonl")
        assert len(bank) == 0


def test_evaluation_tasks_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(line() + "\n" + line(split="test_domains") + "\n")
    with Bank.open(tmp_path / "bank") as bank:
        with pytest.raises(UsageError, match="split 'test_domains'"):
            bank.import_jsonl(tmp_path / "in.jsonl")
        assert len(bank) == 0


def test_unicode_line_separators_do_not_split_lines(tmp_path: Path) -> None:
    odd = experience(1, instruction="one\u2028two\x85three\rfour")
    with Bank.open(tmp_path / "a") as bank, Bank.open(tmp_path / "b") as copy:
        bank.add([odd])
        bank.export_jsonl(tmp_path / "out.jsonl")
        copy.import_jsonl(tmp_path / "out.jsonl")
        assert list(copy) == [odd]


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank") as bank:
        with pytest.raises(DataError, match="Cannot read"):
            bank.import_jsonl(tmp_path / "absent.jsonl")
        (tmp_path / "folder").mkdir()
        with pytest.raises(LopdGymError, match="Cannot write"):
            bank.export_jsonl(tmp_path / "folder")
    assert not list(tmp_path.glob("*.tmp"))
