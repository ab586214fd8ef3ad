from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from lopd_envs.acebench import make_acebench
from lopd_envs.acebench.corpus import CATEGORIES, Corpus, load_corpus
from lopd_envs.acebench.schema import tool_spec
from lopd_envs.acebench.splits import family, in_test, split_rows

from lopd_gym.errors import DataError, UsageError


def test_the_release_is_loaded_whole(corpus: Corpus) -> None:
    rows = {"en": 1_023, "zh": 1_017}
    assert corpus.pinned
    assert tuple(corpus.rows) == CATEGORIES
    assert sum(map(len, corpus.rows.values())) == rows[corpus.language]
    for category in ("normal_multi_turn_user_adjust", "normal_multi_turn_user_switch"):
        assert len({row.dialogue for row in corpus.rows[category]}) == 50


def test_train_and_test_share_no_family(corpus: Corpus) -> None:
    splits = split_rows(corpus, with_user=True)
    families = {name: {family(row) for row in splits[name]} for name in ("train", "test")}
    assert not families["train"] & families["test"]
    assert len(splits["train"]) + len(splits["test"]) == len(splits["all"])
    assert 0.2 < len(splits["test"]) / len(splits["all"]) < 0.45
    for category in CATEGORIES:
        assert {in_test(row) for row in corpus.rows[category]} == {True, False}, category


def test_variants_of_a_task_are_one_family(acebench_folder: Path) -> None:
    rows = load_corpus(acebench_folder, "en").rows
    for category in ("agent_multi_step", "agent_multi_turn"):
        by_question: dict[str, set[str]] = {}
        for row in rows[category]:
            by_question.setdefault(row.fields["question"].strip(), set()).add(family(row))
        assert all(len(families) == 1 for families in by_question.values())


def test_both_languages_split_alike(acebench_folder: Path) -> None:
    found = [
        {row.id: in_test(row) for rows in corpus.rows.values() for row in rows}
        for corpus in (load_corpus(acebench_folder, language) for language in ("en", "zh"))
    ]
    shared = found[0].keys() & found[1].keys()
    assert all(found[0][name] == found[1][name] for name in shared)
    assert len(shared) > 900


def test_every_function_has_a_json_schema(corpus: Corpus) -> None:
    known = {"string", "object", "array", "number", "integer", "boolean"}
    for rows in corpus.rows.values():
        for row in rows:
            for document in row.fields["function"]:
                spec = tool_spec(document)
                assert spec.parameters["type"] == "object"
                kinds = [p.get("type") for p in spec.parameters["properties"].values()]
                assert known.issuperset(kinds)


@pytest.fixture
def copied(acebench_folder: Path, tmp_path: Path) -> Path:
    """A writable copy of one category."""
    (tmp_path / "data_en" / "possible_answer").mkdir(parents=True)
    for name in ("data_en/", "data_en/possible_answer/"):
        name += "data_agent_multi_step.json"
        shutil.copyfile(acebench_folder / name, tmp_path / name)
    return tmp_path


def test_a_part_or_another_version_is_labelled(copied: Path) -> None:
    env = make_acebench("agent_multi_step", copied)
    assert env.label == "acebench:en:other-version"
    assert set(env.splits()) == {"agent_multi_step", "agent", "all", "train", "test"}


def test_damaged_data_is_one_sentence(copied: Path) -> None:
    answers = copied / "data_en/possible_answer/data_agent_multi_step.json"
    lines = answers.read_text("utf-8").splitlines()
    for damaged, words in (
        (lines[:-1], "of different versions"),
        ([*lines[:-1], lines[-1][:50]], "truncated or altered"),
        ([json.dumps({"id": json.loads(line)["id"]}) for line in lines], "expected a ground_truth"),
    ):
        answers.write_text("\n".join(damaged), "utf-8")
        load_corpus.cache_clear()
        with pytest.raises(DataError, match=words):
            load_corpus(copied, "en")
    answers.unlink()
    with pytest.raises(DataError, match="is missing"):
        load_corpus(copied, "en")


def test_wrong_names_are_one_sentence(copied: Path) -> None:
    with pytest.raises(DataError, match="git clone"):
        make_acebench()
    with pytest.raises(DataError, match="git clone"):
        make_acebench(data=copied, language="zh")
    with pytest.raises(UsageError, match="did you mean 'zh'"):
        make_acebench(data=copied, language="zhh")
    with pytest.raises(UsageError, match="did you mean 'agent_multi_step'"):
        make_acebench("agent_multistep", copied)
    with pytest.raises(UsageError, match="known: official, strict"):
        make_acebench("test", copied, scoring="x")  # type: ignore[arg-type]
