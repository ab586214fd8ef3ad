"""Settings: defaults, files, overrides, and one clear sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lopd_gym.errors import UsageError
from lopd_gym.run.folder import RunFolder, append_line, read_lines
from lopd_gym.run.rollouts import training_jobs
from lopd_gym.run.settings import (
    EvaluationSettings,
    RunSettings,
    apply_overrides,
    read_settings_file,
    validate,
)
from lopd_gym.tasks import Task

NAMED = {"env": {"name": "envscaler"}, "learner": {"name": "lopd"}}


def test_overrides_reach_nested_options() -> None:
    values: dict[str, object] = {"evaluation": {"tasks": 4}}
    apply_overrides(values, ["evaluation.every=2", "model.source=a/b", "sampling.temperature=1.0"])
    assert values["evaluation"] == {"tasks": 4, "every": 2}
    settings = validate(RunSettings, {**NAMED, **values}, "the run")
    assert settings.sampling.temperature == 1.0
    assert settings.model.source == "a/b"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rolouts": 5}, "did you mean 'rollouts'"),
        ({"evaluation": {"task": 5}}, "did you mean 'tasks'"),
        ({"model": {"student": {"rnk": 5}}}, "did you mean 'rank'"),
        ({"rollouts": "many"}, "rollouts"),
        ({"evaluation": {"tasks": 0}}, "evaluation.tasks"),
    ],
)
def test_mistakes_get_one_sentence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        validate(RunSettings, {**NAMED, **changes}, "the run")
    assert "\n" not in str(caught.value)


def test_an_override_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match="name=value"):
        apply_overrides({}, ["evaluation.tasks"])


def test_settings_files_are_toml_or_json(tmp_path: Path) -> None:
    toml, broken = tmp_path / "a.toml", tmp_path / "b.json"
    toml.write_text('rollouts = 900\n[env]\nname = "envscaler"\n')
    assert read_settings_file(toml)["env"] == {"name": "envscaler"}
    broken.write_text("{")
    with pytest.raises(UsageError, match="not valid"):
        read_settings_file(broken)
    with pytest.raises(UsageError, match="Cannot read"):
        read_settings_file(tmp_path / "absent.toml")


def test_saved_settings_are_the_ones_that_ran(tmp_path: Path) -> None:
    settings = validate(RunSettings, {**NAMED, "rollouts": 1000}, "the run")
    folder = RunFolder.create(settings, tmp_path, tmp_path / "one")
    assert RunFolder.existing(folder.path)[1] == settings
    with pytest.raises(UsageError, match="--resume"):
        RunFolder.create(settings, tmp_path, tmp_path / "one")
    with pytest.raises(UsageError, match="not a run folder"):
        RunFolder.existing(tmp_path)


def test_a_run_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    settings = validate(RunSettings, NAMED, "the run")
    with pytest.raises(UsageError, match="Cannot write the run folder"):
        RunFolder.create(settings, tmp_path, blocker / "run")


def test_json_lines_survive_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_line(path, {"step": 1})
    append_line(path, {"step": 2})
    path.write_text(path.read_text()[:-4])
    assert read_lines(path) == [{"step": 1}]


def test_training_jobs_are_a_seeded_shuffle_without_gaps() -> None:
    ids = [f"t{n}" for n in range(7)]
    tasks = [Task(i, "train", ()) for i in ids]
    jobs = training_jobs(tasks, 0, "train", 0, 14)
    assert sorted(j.task_id for j in jobs[:7]) == ids
    assert sorted(j.task_id for j in jobs[7:]) == ids
    assert jobs[3:9] == training_jobs(tasks, 0, "train", 3, 6)
    assert jobs != training_jobs(tasks, 1, "train", 0, 14)
    assert len({j.seed for j in jobs}) == 14
    grouped = training_jobs(tasks, 0, "train", 0, 8, group_size=4)
    assert [j.attempt for j in grouped] == [0, 1, 2, 3] * 2
    assert len({j.task_id for j in grouped}) == 2


def test_defaults_are_json() -> None:
    settings = validate(RunSettings, NAMED, "the run")
    assert json.loads(settings.model_dump_json())["evaluation"] == (
        EvaluationSettings().model_dump(mode="json")
    )
