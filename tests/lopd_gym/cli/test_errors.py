"""Mistakes on the command line: one sentence, the right exit code, and no traceback."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lopd_gym.cli.main import main
from tests.lopd_gym.run.processes import finish, start_or_resume, wait_for_growth

RUN = ("run", "--env", "envscaler", "--learner", "lopd")
EVAL = ("eval", "--env", "envscaler")
Fails = Callable[..., str]


@pytest.fixture
def fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Fails:
    """Run the command line in an empty folder; returns what a failure printed on stderr."""

    def run(*arguments: str, code: int) -> str:
        monkeypatch.setattr(sys, "argv", ["lopd-gym", *arguments])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr().err
        assert caught.value.code == code, said
        return said

    return run


def one_sentence(said: str) -> str:
    """Check that stderr holds one line of error, and return it."""
    assert said.startswith("Error: ")
    assert said.count("\n") == 1, said
    assert said.rstrip().endswith((".", "?", "DIR)."))
    return said.removeprefix("Error: ").rstrip()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--env", "envscalr", "--learner", "lopd"), "did you mean 'envscaler'"),
        (("run", "--env", "envscaler", "--learner", "lodp"), "did you mean 'lopd'"),
        ((*RUN, "--preset", "papr"), "did you mean 'paper'"),
        ((*RUN, "--set", "learner.margn=1"), "did you mean 'margin'"),
        ((*RUN, "--set", "rolouts=1"), "did you mean 'rollouts'"),
        ((*RUN, "--set", "evaluation.task=1"), "did you mean 'tasks'"),
        ((*RUN, "--set", "env.sandbx=x"), "did you mean 'sandbox'"),
        ((*RUN, "--set", "rollouts"), "expects name=value, found 'rollouts'"),
        ((*RUN, "--set", "learner.items=0"), "'items' of learner 'lopd'"),
        ((*RUN, "--set", "learner.items=[1]"), "found [1]"),
        ((*RUN, "--set", "rolouts[/b]=1"), "'rolouts[/b]'"),
        ((*RUN, "--set", "rollouts=many"), "found 'many'"),
        ((*RUN, "--set", "model=5"), "'model'"),
        ((*RUN, "--set", "env=5"), "--env NAME"),
        ((*RUN, "--rollouts", "90"), "must cover those that fill the bank (48)"),
        ((*RUN, "--set", "evaluation.split=tset"), "did you mean 'test'"),
        ((*RUN, "--chat-format", "qwn"), "did you mean 'qwen3'"),
        ((*RUN, "--config", "absent.toml"), "absent.toml"),
        (("run",), "--env and --learner"),
        (("run", "--learner", "lopd"), "--env and --learner"),
        (("run", "--resume", "nowhere"), "nowhere is not a run folder"),
        ((*EVAL, "--script", "orcale"), "did you mean 'oracle'"),
        ((*EVAL, "--split", "tst"), "did you mean 'test'"),
        ((*EVAL, "--tasks", "0"), "evaluation.tasks"),
        (("learners", "show", "lodp"), "did you mean 'lopd'"),
        (("envs", "show", "envscalr"), "did you mean 'envscaler'"),
        (("data", "pull", "envscalr"), "did you mean 'envscaler'"),
        (("export", "nowhere", "--to", "new"), "nowhere is not a run folder"),
        (("bank", "stats", "nowhere"), "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_names_what_was_expected(
    fails: Fails, arguments: tuple[str, ...], words: str
) -> None:
    assert words in one_sentence(fails(*arguments, code=2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*RUN, "--seed"), "requires an argument"),
        ((*RUN, "--seed", "x"), "Invalid value for '--seed'"),
        ((*RUN, "--sed", "1"), "No such option: --sed"),
        (("rnu",), "Did you mean 'run'"),
        (("eval",), "Missing option '--env'"),
    ],
)
def test_the_parsers_own_errors(fails: Fails, arguments: tuple[str, ...], words: str) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", fails(*arguments, code=2))
    assert words in plain
    assert "Traceback" not in plain


def test_a_folder_below_a_file_cannot_be_written(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = one_sentence(fails(*RUN, "--out", "file/run", code=2))
    assert said == "Cannot write the run folder file/run: Not a directory."
    assert "file" in one_sentence(
        fails(*EVAL, "--script", "nothing", "--tasks", "2", "--out", "file/new", code=2)
    )


def test_files_of_another_kind_are_named(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    said = one_sentence(fails("run", "--config", "binary.toml", code=2))
    assert "binary.toml is not valid TOML or JSON" in said
    for number, text in enumerate(("[]", '{"learners": 3}')):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "comparison.json").write_text(text)
        for command in ("show", "report"):
            said = one_sentence(fails(command, str(number), code=1))
            assert f"{number}/comparison.json holds no comparison" in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "free some space"),
        (OSError(errno.EIO, "Input/output error", "some/file"), "Input/output error: some/file."),
        (OSError(errno.EIO, "Input/output error"), "Input/output error."),
    ],
)
def test_trouble_of_the_system_is_one_sentence(
    fails: Fails, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def break_down() -> None:
        raise error

    monkeypatch.setattr("lopd_gym.cli.main.app", break_down)
    assert words in one_sentence(fails("run", code=1))


def test_models_that_are_absent_or_not_whole(fails: Fails, tmp_path: Path) -> None:
    assert "No model at" in one_sentence(fails(*EVAL, "--model", "./absent/model", code=1))
    folder = tmp_path / "no-tokenizer"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    assert str(folder) in one_sentence(fails(*EVAL, "--model", str(folder), code=1))


def new_run_folder(path: Path) -> Path:
    from lopd_gym.cli.run import resolve
    from lopd_gym.run.folder import RunFolder
    from lopd_gym.run.settings import TINY_DEFAULTS, RunSettings, merge, validate

    values: dict[str, object] = {"env": {"name": "envscaler"}, "learner": {"name": "lopd"}}
    merge(values, {**TINY_DEFAULTS, "model": {"source": "tiny", "student": {"kind": "full"}}})
    settings = validate(RunSettings, resolve(values, []), "the run")
    return RunFolder.create(settings, path.parent, path).path


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ((*RUN[1:], "--set", "learner.items=1"), "learner.items"),
        (("--set", "evaluation.tasks=5"), "evaluation.tasks"),
        (("--seed", "3"), "seed"),
        (("--rollouts", "3000"), "rollouts"),
        (("--preset", "paper"), "learner.preset"),
        (("--model", "other"), "model.source"),
    ],
)
def test_a_resume_with_other_settings_names_the_difference(
    fails: Fails, tmp_path: Path, options: tuple[str, ...], name: str
) -> None:
    folder = new_run_folder(tmp_path / "run")
    said = one_sentence(fails("run", "--resume", str(folder), *options, code=2))
    assert re.search(rf"these differ: {name}[;,]", said), said


def test_a_run_folder_is_not_used_twice_and_an_export_replaces_nothing(
    fails: Fails, tmp_path: Path
) -> None:
    folder = new_run_folder(tmp_path / "run")
    said = one_sentence(fails(*RUN, "--out", str(folder), code=2))
    assert f"--resume {folder}" in said
    (tmp_path / "taken").mkdir()
    said = one_sentence(fails("export", str(folder), "--to", "taken", code=2))
    assert said == "taken exists already: name a new folder."
    said = one_sentence(fails("export", str(folder), "--to", "new", code=2))
    assert "no checkpoint yet" in said


def test_data_that_cannot_be_pulled(
    fails: Fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOPD_GYM_HOME", str(tmp_path / "home"))
    said = one_sentence(fails("data", "pull", "envscaler", code=1))
    assert "Cannot fetch" in said
    assert str(tmp_path / "home") in said


def test_data_that_is_absent_or_truncated(fails: Fails, tmp_path: Path, data_folder: Path) -> None:
    absent = tmp_path / "absent"
    said = one_sentence(fails(*EVAL, "--data", str(absent), "--script", "nothing", code=1))
    assert str(absent) in said
    for name in ("env_metadata_subset.json", "rl_scenarios_subset.json"):
        (tmp_path / name).write_bytes((data_folder / "envscaler" / name).read_bytes())
    cut = tmp_path / "rl_scenarios_subset.json"
    cut.write_bytes(cut.read_bytes()[:-1000])
    said = one_sentence(fails(*EVAL, "--data", str(tmp_path), "--script", "nothing", code=1))
    assert str(cut) in said


def test_ctrl_c_shows_how_to_go_on_and_going_on_works(tmp_path: Path) -> None:
    folder, log = tmp_path / "run", tmp_path / "run.log"
    small = ("rollouts=40", "learner.bank_rollouts=32", "episodes_per_step=8", "evaluation.tasks=8")
    small += ("evaluation.every=0", "limits.concurrency=8", "learner.cold_start_steps=1")
    process = start_or_resume(folder, *RUN, *(part for s in small for part in ("--set", s)))
    wait_for_growth(folder / "episodes" / "bank.jsonl", process)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 1
    said = log.read_text()
    assert said.endswith(f"Continue with: lopd-gym run --resume {folder}\n")
    assert "Traceback" not in said
    finish(start_or_resume(folder), log)
    assert (folder / "student" / "model.safetensors").exists()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from lopd_gym.cli.main import main\n"
        "sys.argv = ['lopd-gym', '--help']\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'transformers', 'gymnasium', 'peft'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("[]")
