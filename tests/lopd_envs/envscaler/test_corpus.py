"""Loading the release: both encodings, and everything that is wrong with a file."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lopd_envs.envscaler import corpus as corpus_module
from lopd_envs.envscaler.corpus import load_corpus
from lopd_envs.envscaler.splits import load_manifest, split_tasks

from lopd_gym.errors import DataError
from tests.lopd_envs.envscaler.synthetic import (
    PASSES,
    SOURCE,
    environment,
    scenario,
    tool,
    write,
)

Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(data_folder: Path) -> Path:
    return data_folder / "envscaler"


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_both_encodings_give_the_same_corpus(folder: Path, tmp_path: Path) -> None:
    sample = folder / "hf_format_sample"
    hub_environments = read(sample / "191_env_metadata_processed.sample.json")
    hub_scenarios = read(sample / "envscaler_rl_scenario_metadata.sample.json")
    assert isinstance(hub_environments[0]["tools"], str)
    assert isinstance(hub_scenarios[0]["init_config"], str)
    native = read(folder / "env_metadata_subset.json")
    by_task = {s["task_id"]: s for s in read(folder / "rl_scenarios_subset.json")}
    corpora = []
    for name, environments, scenarios in (
        ("hub", hub_environments, hub_scenarios),
        (
            "repository",
            {e["env_id"]: native[e["env_id"]] for e in hub_environments},
            [by_task[s["task_id"]] for s in hub_scenarios],
        ),
    ):
        (tmp_path / name).mkdir()
        corpora.append(load_corpus(write(tmp_path / name, environments, scenarios)))
    hub, repository = corpora
    assert hub.environments == repository.environments
    assert hub.scenarios == repository.scenarios
    assert hub.hash == repository.hash
    assert [s.id for s in hub.scenarios] == [s["task_id"] for s in hub_scenarios]


def test_the_subset_loads_whole_and_once(folder: Path) -> None:
    corpus = load_corpus(folder)
    assert (len(corpus.environments), len(corpus.scenarios), corpus.faults) == (46, 72, {})
    assert load_corpus(folder) is corpus
    stats = {row["task_id"]: row for row in read(folder / "task_stats.json")}
    for one in corpus.scenarios:
        assert len(one.checks) == stats[one.id]["n_checks"]
        assert len(corpus.environments[one.env_id].tools) == stats[one.id]["n_tools"]


def test_the_hash_follows_the_content(tmp_path: Path) -> None:
    first = load_corpus(write(tmp_path, [environment()], [scenario()])).hash
    assert load_corpus(write(tmp_path, {"a": environment()}, [scenario()])).hash == first
    assert load_corpus(write(tmp_path, [environment()], [scenario(task="Other.")])).hash != first


def test_loading_executes_nothing(tmp_path: Path) -> None:
    bomb = "raise SystemExit('executed')\n"
    source, check = bomb + SOURCE, bomb + PASSES
    load_corpus(write(tmp_path, [environment(env_class_code=source)], [scenario(check)]))


@pytest.mark.parametrize("name", ["env_metadata_subset.json", "rl_scenarios_subset.json"])
@pytest.mark.parametrize("sums", [True, False])
def test_a_truncated_file_is_rejected(folder: Path, tmp_path: Path, name: str, sums: bool) -> None:
    for file in folder.glob("*.json"):
        shutil.copy(file, tmp_path)
    if sums:
        shutil.copy(folder / "SHA256SUMS", tmp_path)
    whole = (folder / name).read_bytes()
    (tmp_path / name).chmod(0o644)
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=f"{name}.*truncated or altered"):
        load_corpus(tmp_path)


def test_an_altered_file_is_rejected_where_its_hash_is_known(folder: Path, tmp_path: Path) -> None:
    for file in (*folder.glob("*.json"), folder / "SHA256SUMS"):
        shutil.copy(file, tmp_path)
    path = tmp_path / "rl_scenarios_subset.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("Jamie", "James", 1))
    with pytest.raises(DataError, match=r"expected SHA-256 a9b11fc1.*found"):
        load_corpus(tmp_path)


def test_the_releases_own_names_demand_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [environment()], [scenario()])
    (tmp_path / "env_metadata_subset.json").rename(tmp_path / "191_env_metadata_processed.json")
    with pytest.raises(DataError, match="expected SHA-256 600fa6d9"):
        load_corpus(tmp_path)
    monkeypatch.setattr(corpus_module, "_PINNED", {})
    with pytest.raises(DataError, match="expected 191 records, found 1"):
        load_corpus(tmp_path)
    (tmp_path / "191_env_metadata_processed.json").rename(tmp_path / "env_metadata_subset.json")
    (tmp_path / "rl_scenarios_subset.json").rename(tmp_path / "rl_scenario_metadata.json")
    with pytest.raises(DataError, match="expected 2550 records, found 1"):
        load_corpus(tmp_path)


@pytest.mark.parametrize(
    ("environments", "scenarios", "message"),
    [
        ([], [scenario()], "expected records, found none"),
        ("text", [scenario()], "expected records, found str"),
        (3, [scenario()], "expected records, found int"),
        (["text"], [scenario()], "record 0: expected a JSON object, found str"),
        ([{}], [scenario()], "expected 'env_id' of type str, found nothing"),
        ([environment(env_class_code=3)], [scenario()], "'env_class_code' of type str, found int"),
        ([environment(), environment()], [scenario()], "env_id 'env_141_rl' twice"),
        ([environment()], [scenario(), scenario()], "task_id 'env_141_rl-task_1' twice"),
        ([environment()], [scenario(env_id="env_9")], "a known env_id, found 'env_9'"),
        ([environment()], [scenario(env_class_name="Box")], "class name 'Shelf'.*found 'Box'"),
        ([environment(env_class_code="class Shelf(")], [scenario()], "expected valid Python"),
        ([environment(env_class_code="x = 1")], [scenario()], "a definition of 'Shelf'"),
        ([environment(env_class_code="import os\n" + SOURCE)], [scenario()], "found 'os'"),
        ([environment(env_class_code="from . import a\n" + SOURCE)], [scenario()], r"found '\.'"),
        ([environment()], [scenario("def check(")], "check 0: expected valid Python"),
        ([environment()], [scenario("def check_it(s): pass")], "definition of 'check_func'"),
        ([environment()], [scenario(PASSES, "import socket\n" + PASSES)], "check 1.*'socket'"),
        ([environment()], [scenario(init_config="{")], "expected JSON in 'init_config'"),
        ([environment()], [scenario(init_config=[])], "'init_config' of type dict, found list"),
        ([environment()], [scenario(checklist_with_func=[{}])], "'check_item' of type str"),
        ([environment(tools="[1]")], [scenario()], "tool 0: expected a JSON object, found int"),
        ([environment(tools=[tool("add"), tool("add")])], [scenario()], "'add' twice"),
        ([environment(tools=[{"function": {"name": "a"}}])], [scenario()], "'description'"),
    ],
)
def test_each_fault_is_named(
    tmp_path: Path, environments: Any, scenarios: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_corpus(write(tmp_path, environments, scenarios))
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_faults_of_the_pinned_release_cost_their_tasks_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    second = scenario("import os\n" + PASSES, task_id="env_141_rl-task_2")
    third = scenario(task_id="env_141_rl-task_3", checklist_with_func=None)
    write(tmp_path, [environment()], [scenario(), second, third])
    name = "rl_scenarios_subset.json"
    digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    monkeypatch.setattr(corpus_module, "_PINNED", {name: digest})
    corpus = load_corpus(tmp_path)
    assert list(corpus.faults) == ["env_141_rl-task_2"]
    tasks = split_tasks(corpus)
    assert [id for split in tasks.values() for id in split] == ["env_141_rl-task_1"]


def test_splits_are_by_environment_and_hold_every_scored_task_once(folder: Path) -> None:
    corpus, manifest = load_corpus(folder), load_manifest()
    tasks = split_tasks(corpus)
    ids = [id for split in tasks.values() for id in split]
    assert sorted(ids) == sorted(s.id for s in corpus.scenarios)
    assert {k: len(v) for k, v in tasks.items()} == {"train": 49, "test": 11, "test_tasks": 12}
    groups = {split: {t.group for t in of.values()} for split, of in tasks.items()}
    assert not groups["test"] & (groups["train"] | groups["test_tasks"])
    assert groups["test_tasks"] <= manifest.train
    first = [t.group for t in list(tasks["train"].values())[:12]]
    assert len(set(first)) > 6  # the first few tasks are a mix of environments


def test_the_manifest_is_what_its_rule_says() -> None:
    import hashlib

    manifest = load_manifest()
    for number in range(141, 192):
        name = f"env_{number}_rl"
        digest = hashlib.sha256(f"{manifest.name}/{name}".encode()).hexdigest()
        held_out = int(digest, 16) % 4 == 0
        assert (name in manifest.test, name in manifest.train) == (held_out, not held_out)
    assert len(manifest.train) + len(manifest.test) == 51
    assert manifest.hash.startswith("4a4da42bcba42055")


def test_no_scored_task_at_all_is_an_error(tmp_path: Path) -> None:
    unknown = environment(env_id="env_9_sft")
    write(tmp_path, [unknown], [scenario(env_id="env_9_sft")])
    with pytest.raises(DataError, match="found none among 1"):
        split_tasks(load_corpus(tmp_path))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_loaded_or_refused_in_one_sentence(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = write(tmp_path_factory.mktemp("damaged"), [environment()], [scenario()])
    name = data.draw(st.sampled_from(["env_metadata_subset.json", "rl_scenarios_subset.json"]))
    whole = bytearray((folder / name).read_bytes())
    start = data.draw(st.integers(0, len(whole) - 1))
    whole[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=40))
    (folder / name).write_bytes(whole)
    try:
        load_corpus(folder)
    except DataError as err:
        sentence = str(err)
    else:
        return  # the damage was to a text, which may be any
    assert re.search(r"expected .+ found ", sentence)
