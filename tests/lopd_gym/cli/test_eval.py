"""``lopd-gym eval`` with a folder: a kill repeats nothing finished, other settings are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lopd_gym.run.processes import finish, start, wait_for_growth

pytestmark = pytest.mark.timeout(300)
EVAL = ("eval", "--env", "envscaler", "--tasks", "48", "--no-greedy")
SMALL = ("--set", "limits.concurrency=4")


def test_a_killed_evaluation_goes_on_after_its_last_whole_chunk(tmp_path: Path) -> None:
    calm, killed, log = tmp_path / "calm", tmp_path / "killed", tmp_path / "log"
    finish(start(log, *EVAL, *SMALL, "--out", str(calm)), log)
    expected = [json.loads(line)["token_ids"] for line in (calm / "sampled.jsonl").open()]

    process = start(log, *EVAL, *SMALL, "--out", str(killed))
    wait_for_growth(killed / "sampled.jsonl", process)
    process.kill()
    process.join()
    kept = (killed / "sampled.jsonl").read_bytes()
    whole = kept[: kept.rindex(b"\n") + 1].splitlines(keepends=True)
    assert 0 < len(whole) < 48
    finish(start(log, *EVAL, *SMALL, "--out", str(killed)), log)
    lines = (killed / "sampled.jsonl").read_bytes().splitlines(keepends=True)
    done = len(whole) // 8 * 8
    assert lines[:done] == whole[:done]
    assert [json.loads(line)["token_ids"] for line in lines] == expected


def test_a_folder_of_another_evaluation_is_refused(tmp_path: Path) -> None:
    log, out = tmp_path / "log", str(tmp_path / "out")
    finish(start(log, *EVAL, "--script", "nothing", "--out", out), log)
    process = start(log, *EVAL, "--script", "oracle", "--out", out)
    process.join(60)
    assert process.exitcode == 2
    assert "holds another evaluation (script differ)" in log.read_text()
