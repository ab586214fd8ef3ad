"""A run that is killed again and again ends with the numbers of an undisturbed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lopd_gym.run.processes import (
    finish,
    recorded,
    start_or_resume,
    wait_for_growth,
    wait_until_recorded,
)

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
    finish(start_or_resume(calm), calm.with_suffix(".log"))

    # What a kill destroys is played again, so the kills together come before the end of training.
    random = np.random.default_rng(0)
    for size in recorded(calm) * np.sort(random.uniform(0, 0.5, size=4)):
        process = start_or_resume(folder)
        wait_until_recorded(folder, size, process)
        process.join(random.uniform(0, 0.2))
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
