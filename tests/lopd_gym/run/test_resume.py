"""A run that is killed again and again ends with the numbers of an undisturbed one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lopd_gym.run.processes import finish, start_or_resume, wait_for_growth

pytestmark = pytest.mark.timeout(600)


def results(folder: Path) -> tuple[Any, Any, bytes]:
    """Everything a run came to but times, memory and paths."""
    summary = json.loads((folder / "summary.json").read_text())
    for name in ("minutes", "peak_memory_mib", "student"):
        del summary[name]
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    metrics = [
        {k: v for k, v in json.loads(line).items() if not k.endswith("_s")} for line in lines
    ]
    return summary, metrics, (folder / "student" / "model.safetensors").read_bytes()


def test_five_kills_at_random_moments_change_no_number(tmp_path: Path) -> None:
    calm, folder = tmp_path / "calm", tmp_path / "killed"
    started = time.perf_counter()
    finish(start_or_resume(calm), calm.with_suffix(".log"))
    seconds = time.perf_counter() - started

    # What a kill destroys is played again, so the kills together come before the end.
    moments = np.sort(np.random.default_rng(0).uniform(0, 0.9 * seconds, size=4))
    for delay in np.diff(moments, prepend=0.0):
        process = start_or_resume(folder)
        process.join(float(delay))
        assert process.exitcode is None, "the run was over before it could be killed"
        process.kill()
        process.join()

    process = start_or_resume(folder)
    wait_for_growth(folder / "metrics.jsonl", process)
    process.join(0.1)
    assert process.exitcode is None, "the run was over before it could be killed in training"
    process.kill()
    process.join()
    assert not (folder / "summary.json").exists()

    finish(start_or_resume(folder), folder.with_suffix(".log"))
    expected, found = results(calm), results(folder)
    assert [row["step"] for row in expected[1]] == [1, 2, 3, 4, 5, 6]
    assert found == expected
