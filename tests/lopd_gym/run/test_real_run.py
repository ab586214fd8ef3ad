"""LOPD on the EnvScaler release with a real language model. Opt-in: ``pytest -m slow``.

A model of this size solves none of these tasks, so the bank starts with experiences from a file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from lopd_envs.envscaler import make_envscaler
from transformers import AutoModelForCausalLM

from lopd_gym.bank import Experience
from lopd_gym.bank.jsonl import write_jsonl
from lopd_gym.bank.trace import write_trace
from lopd_gym.cli.assemble import resolve
from lopd_gym.episode import read_episodes
from lopd_gym.run.folder import RunFolder, read_lines
from lopd_gym.run.progress import SilentReporter
from lopd_gym.run.settings import RunSettings, validate
from lopd_gym.run.training import TrainingRun
from tests.lopd_gym.policy.test_real_model import smollm_file

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

CHANGES = [
    "rollouts=2",
    "learner.items=1",
    "learner.bank_rollouts=0",
    "episodes_per_step=2",
    "evaluation.tasks=1",
    "evaluation.every=0",
    "evaluation.greedy=false",
    "max_new_tokens=32",
    "limits.max_tokens=6000",
    'env.rules={"max_turns": 2, "max_parse_errors": 2}',
]


def golden_experiences(data: Path, path: Path) -> int:
    """Write the golden episodes of training tasks as a file of experiences."""
    env = make_envscaler("train", data=str(data), sandbox="process")
    tasks = {task.id: task for task in env.tasks("train")}
    found = []
    for golden in json.loads((data / "golden_episodes.json").read_text()):
        task = tasks.get(golden["task_id"])
        if task is None or golden["reward"] < 1:
            continue
        calls = zip(golden["actions"], golden["observations"], strict=False)
        trace = write_trace((a["name"], a["arguments"], said) for a, said in calls)
        text = task.instruction
        found.append(Experience(env.label, "train", task.id, task.group, text, trace, 1.0))
    env.close()
    return write_jsonl(path, found)


def test_lopd_trains_smollm2_on_release_tasks(data_folder: Path, tmp_path: Path) -> None:
    data = data_folder / "envscaler"
    assert golden_experiences(data, tmp_path / "experiences.jsonl") >= 2
    values: dict[str, Any] = {
        "env": {"name": "envscaler", "data": str(data), "sandbox": "process"},
        "learner": {"name": "lopd"},
        "model": {"source": str(smollm_file())},
        "bank_from": str(tmp_path / "experiences.jsonl"),
    }
    settings = validate(RunSettings, resolve(values, CHANGES), "the run")
    folder = RunFolder.create(settings, tmp_path, tmp_path / "run")
    run = TrainingRun(settings, folder, SilentReporter())
    summary = run.go()

    (row,) = read_lines(folder.metrics)
    assert row["trained_episodes"] == 2
    assert row["skipped"] == 0
    assert row["grad_norm_student"] > 0
    assert row["grad_norm_composer"] > 0
    assert row["self_hit_rate"] == 0
    assert summary.peak_memory_mib < 12 * 1024
    episode = next(read_episodes(folder.episodes("train")))
    assert episode.sampled_tokens > 0
    ids = torch.from_numpy(episode.token_ids[:200]).long()[None]
    plain = AutoModelForCausalLM.from_pretrained(folder.student)
    with torch.no_grad():
        exported, base = plain(ids).logits, run.backbone.base(ids).logits
        student = run.backbone.student(ids).logits
    assert (exported - student).abs().max() < 1e-3
    assert (exported - base).abs().max() > 0
