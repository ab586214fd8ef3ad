"""What is taken from the wheel, and what is said when it is not as it should be."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
from lopd_envs.bfcl import make_bfcl
from lopd_envs.bfcl.corpus import MULTI_TURN
from lopd_envs.bfcl.splits import split_tasks
from lopd_envs.bfcl.wheel import DEFAULT_VERSION, PACKAGE, Wheel, find_package, load_wheel

from lopd_gym.errors import DataError, UsageError


def test_the_installed_release_is_the_default_one(wheel: Wheel) -> None:
    env = make_bfcl("multi_turn_base")
    assert env.label == f"bfcl-{DEFAULT_VERSION}"
    assert env.data_hash() == wheel.hash


def test_importing_the_wheel_apart_leaves_no_trace(wheel: Wheel) -> None:
    importlib.import_module(f"{PACKAGE}.constants.category_mapping")
    before = {name: module for name, module in sys.modules.items() if PACKAGE in name}
    load_wheel.cache_clear()
    load_wheel()
    assert {name: module for name, module in sys.modules.items() if PACKAGE in name} == before


def test_an_absent_wheel_is_one_sentence_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pip install --no-deps bfcl-eval=="):
        make_bfcl("multi_turn_base", data=tmp_path)


def test_where_nothing_is_installed_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="not installed: run 'pip install --no-deps bfcl-eval=="):
        find_package()


def test_an_altered_wheel_is_refused(wheel: Wheel, tmp_path: Path) -> None:
    copy = tmp_path / PACKAGE
    for part in ("data", "constants", "eval_checker"):
        shutil.copytree(find_package() / part, copy / part)
    (copy / "data" / "BFCL_v4_multi_turn_base.json").open("a").write("\n")
    with pytest.raises(DataError, match="unaltered"):
        make_bfcl("multi_turn_base", data=tmp_path)


def test_unknown_names_are_refused_with_the_nearest(wheel: Wheel) -> None:
    with pytest.raises(UsageError, match="multi_turn_base"):
        make_bfcl("multi_turn_bas")
    with pytest.raises(UsageError, match="prompting"):
        make_bfcl("multi_turn_base", protocol="prompt")


def test_train_and_test_are_halves_that_share_no_scenario(wheel: Wheel) -> None:
    halves = [split_tasks(wheel, split, "fc") for split in ("train", "test")]
    train, test = ({t.data["entry"].number for t in half.values()} for half in halves)
    assert len(train) == len(test) == 100
    assert not train & test
    assert {t.group for half in halves for t in half.values()} == set(MULTI_TURN)
    states = [
        {repr(t.data["entry"].raw["initial_config"]) for t in half.values()} for half in halves
    ]
    assert not states[0] & states[1]
