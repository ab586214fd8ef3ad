"""A run in this process: what it leaves behind, and how it stops when something is wrong."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lopd_envs.envscaler import StarterEnv
from transformers import AutoModelForCausalLM, AutoTokenizer

from lopd_gym.bank import Bank
from lopd_gym.cli.assemble import resolve
from lopd_gym.cli.main import main
from lopd_gym.env import ToolEnv
from lopd_gym.episode import GREEDY, Episode, read_episodes
from lopd_gym.errors import DataError, InfrastructureError
from lopd_gym.loop import AgentLoop, Job
from lopd_gym.policy.scripted import ScriptedPolicy, nothing
from lopd_gym.run.build import load_backbone
from lopd_gym.run.checkpoint import Checkpoints
from lopd_gym.run.folder import RunFolder
from lopd_gym.run.phase import check_failures
from lopd_gym.run.progress import SilentReporter
from lopd_gym.run.settings import TINY_DEFAULTS, RunSettings, merge, validate
from lopd_gym.run.summary import Summary
from lopd_gym.run.training import TrainingRun

CHANGES = [
    "rollouts=56",
    "learner.bank_rollouts=32",
    "episodes_per_step=8",
    "evaluation.tasks=16",
    "evaluation.every=0",
    "limits.concurrency=16",
    "learner.cold_start_steps=2",
    "sampling.top_p=1.0",
]
STEPS = 3


class Heard(SilentReporter):
    """Remembers what a run said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def new_run(path: Path, *changes: str, heard: Heard | None = None) -> TrainingRun:
    values: dict[str, Any] = {"env": {"name": "envscaler"}, "learner": {"name": "lopd"}}
    merge(values, TINY_DEFAULTS)
    merge(values, {"model": {"source": "tiny"}})
    settings = validate(RunSettings, resolve(values, [*CHANGES, *changes]), "the run")
    folder = RunFolder.create(settings, path.parent, path)
    return TrainingRun(settings, folder, heard or Heard())


def again(path: Path) -> TrainingRun:
    folder, settings = RunFolder.existing(path)
    return TrainingRun(settings, folder, Heard())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return new_run(tmp_path_factory.mktemp("runs") / "run").go()


@pytest.fixture
def folder(done: Summary) -> Path:
    return Path(done.student).parent


def test_the_bank_grows_with_the_successes_of_training(folder: Path) -> None:
    with Bank.open(folder / "bank", create=False) as bank:
        remembered = {experience.task_id for experience in bank}
    phases = [folder / "episodes" / f"{name}.jsonl" for name in ("bank", "train")]
    filled, trained = (
        {e.task_id for e in read_episodes(path) if (e.outcome.score or 0) >= 0.8} for path in phases
    )
    assert trained - filled
    assert remembered == trained | filled


def test_the_summary_holds_every_policy_and_what_was_spent(done: Summary, folder: Path) -> None:
    rows = {(row.policy, row.mode): row for row in done.rows}
    played = {(p, m) for p in ("base", "student") for m in ("sampled", "greedy")}
    assert set(rows) == {("do nothing", "scripted"), ("oracle", "scripted")} | played
    assert all(row.tasks == 16 and row.failed == 0 for row in done.rows)
    assert rows["oracle", "scripted"].success.mean == 1.0
    assert rows["do nothing", "scripted"].success.mean == 0.0
    assert 0.0 < rows["base", "sampled"].success.mean < 1.0
    gain = rows["student", "greedy"].success.mean - rows["base", "greedy"].success.mean
    assert done.gain["greedy"].mean == pytest.approx(gain)
    assert done.rollouts == {"bank": 32, "training": 8 * STEPS, "total": 32 + 8 * STEPS}
    assert [x for x, mode, _ in done.curve if mode == "sampled"] == [0, 56]
    saved = json.loads((folder / "summary.json").read_text())
    assert saved == json.loads(json.dumps(done.to_json()))
    steps = [json.loads(s)["step"] for s in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3]
    assert len(list(read_episodes(folder / "episodes" / "train.jsonl"))) == 8 * STEPS


def test_the_student_is_an_ordinary_model_folder(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder / "student")
    tokenizer = AutoTokenizer.from_pretrained(folder / "student")
    trained = Checkpoints(folder / "checkpoints").load(STEPS)["student"]
    for name, weight in model.named_parameters():
        assert torch.equal(weight, trained[name].to(weight.dtype)), name
    episode = next(read_episodes(folder / "episodes" / "student-greedy.jsonl"))
    text = tokenizer.decode(episode.token_ids)
    assert tokenizer.encode(text, add_special_tokens=False) == list(episode.token_ids)


def test_eval_of_the_exported_student_plays_the_runs_own_greedy_episodes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["lopd-gym", "eval", "--env", "envscaler", "--model", str(folder / "student")]
    command += ["--tasks", "16", "--set", "limits.concurrency=16", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="0"):
        main()
    expected, found = (
        [(e.task_id, list(e.token_ids), e.outcome.score) for e in read_episodes(path)]
        for path in (folder / "episodes" / "student-greedy.jsonl", tmp_path / "greedy.jsonl")
    )
    assert len(expected) == 16
    assert found == expected


def test_training_episodes_are_played_with_the_newest_weights(folder: Path) -> None:
    backbone = load_backbone(RunFolder.existing(folder)[1])
    backbone.load_student_state(Checkpoints(folder / "checkpoints").load(STEPS - 1)["student"])
    episodes = list(read_episodes(folder / "episodes" / "train.jsonl"))
    last = episodes[-8:]
    ours = max(recording_error(backbone.student, e) for e in last)
    base = max(recording_error(backbone.base, e) for e in last)
    assert ours < 1e-3
    assert base > 10 * ours
    assert base > 1e-2
    versions = [episodes[8 * step].policy_version for step in range(STEPS)]
    assert versions == sorted(set(versions))


def recording_error(model: Any, episode: Episode) -> float:
    """Largest difference of the recorded log-probabilities to those of a model."""
    ids = torch.tensor(episode.token_ids)
    with torch.no_grad():
        logits = model(ids[None]).logits[0, :-1].float()
    found = torch.log_softmax(logits / episode.sampling.temperature, -1)
    found = found.gather(1, ids[1:, None])[:, 0]
    sampled = torch.tensor(episode.loss_mask[1:]).bool()
    recorded = torch.tensor(episode.logprobs[1:]).float()
    return float((found - recorded)[sampled].abs().max())


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_as_good(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    newest = copy / "checkpoints" / f"step-{STEPS:06d}.pt"
    newest.write_bytes(newest.read_bytes()[:5000])
    with pytest.raises(DataError, match="delete it to use the one before") as caught:
        again(copy).go()
    assert str(newest) in str(caught.value)
    assert "\n" not in str(caught.value)
    newest.unlink()
    again(copy).go()
    weights = Path("student", "model.safetensors")
    assert (copy / weights).read_bytes() == (folder / weights).read_bytes()


def test_a_full_disk_is_named_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    (tmp_path / ".step-000001.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        Checkpoints(tmp_path).save(1, {"weight": torch.zeros(100_000)})
    assert caught.value.errno == errno.ENOSPC


def test_a_run_without_experiences_says_so_and_keeps_the_base(tmp_path: Path) -> None:
    heard = Heard()
    few = ("evaluation.tasks=4", "learner.bank_rollouts=16")
    hot = ("sampling.temperature=50", "sampling.top_p=1.0", "max_new_tokens=8")
    run = new_run(tmp_path / "run", *hot, *few, heard=heard)
    summary = run.go()
    (sentence,) = [line for line in heard.lines if line.startswith("NO TRAINING")]
    assert "no experience to learn from" in sentence
    assert "bank_rollouts" in sentence
    assert summary.rollouts == {"bank": 16, "training": 0, "total": 16}
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    student, base = (
        [e.token_ids.tolist() for e in read_episodes(run.folder.episodes(f"{name}-greedy"))]
        for name in ("student", "base")
    )
    assert student == base


def lost(self: ToolEnv) -> Any:
    raise ConnectionError("the server is gone")


def test_an_environment_that_breaks_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StarterEnv, "verify", lost)
    with pytest.raises(InfrastructureError, match="the server is gone") as caught:
        new_run(tmp_path / "run").go()
    assert "16 of 16 episodes failed" in str(caught.value)


def test_a_few_failures_are_borne_and_many_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [task.id for task in StarterEnv("train").tasks("train")[:32]]
    jobs = [Job(task_id, 0) for task_id in ids]

    def play() -> list[Episode]:
        with AgentLoop(StarterEnv, ScriptedPolicy(nothing), GREEDY) as loop:
            return loop.play(jobs)

    good = play()
    monkeypatch.setattr(StarterEnv, "verify", lost)
    bad = play()
    assert all(e.failed and e.outcome.score is None for e in bad)
    check_failures(bad[:3], 0.0)
    check_failures(good[:26] + bad[:6], 0.2)
    with pytest.raises(InfrastructureError, match="7 of 32"):
        check_failures(good[:25] + bad[:7], 0.2)
