"""Loading: whole releases, both encodings, and one sentence about whatever is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from lopd_envs.evalplus.corpus import load_corpus, read_problem
from lopd_envs.evalplus.dataset import DATASET
from lopd_envs.evalplus.repair import repair_inputs
from lopd_envs.evalplus.splits import split_ids

from lopd_gym.data import WebFile
from lopd_gym.errors import DataError
from tests.lopd_envs.evalplus.problems import row


def test_the_releases_are_whole(data_folder: Path) -> None:
    corpus = load_corpus(data_folder / "code")
    problems = corpus.problems
    kinds = [i.partition("/")[0] for i in problems]
    assert (kinds.count("HumanEval"), kinds.count("Mbpp")) == (164, 378)
    base, plus = (
        {
            kind: sum(len(getattr(p, part)) for i, p in problems.items() if i.startswith(kind))
            for kind in ("HumanEval", "Mbpp")
        }
        for part in ("base", "plus")
    )
    assert base == {"HumanEval": 1_570, "Mbpp": 1_174}
    assert plus == {"HumanEval": 122_683, "Mbpp": 39_841}
    assert problems["Mbpp/793"].plus == ()
    assert load_corpus(data_folder / "code") is corpus


def test_the_pinned_hashes_are_those_of_the_unpacked_files(
    data_folder: Path, tmp_path: Path
) -> None:
    from lopd_gym.data import verify_file

    for file in DATASET.files:
        assert isinstance(file, WebFile)
        path = tmp_path / file.filename
        path.write_bytes(gzip.decompress((data_folder / "code" / f"{path.name}.gz").read_bytes()))
        verify_file(path, file.sha256)
    assert load_corpus(tmp_path).hash == load_corpus(data_folder / "code").hash


def test_splits_do_not_overlap_where_they_must_not(data_folder: Path) -> None:
    ids = split_ids(load_corpus(data_folder / "code"))
    assert {split: len(found) for split, found in ids.items()} == {
        "train": 154,
        "test": 164,
        "test_mbpp": 224,
        "mbpp": 378,
    }
    assert not set(ids["train"]) & set(ids["test_mbpp"])


@pytest.mark.parametrize(
    ("task_id", "stored", "meant"),
    [
        ("Mbpp/2", [[1, 2], [3]], [(1, 2), (3,)]),
        ("Mbpp/63", [[[1, 2], [3, 4]]], [[(1, 2), (3, 4)]]),
        ("Mbpp/259", [[[1], [2]], [[3]]], [((1,), (2,)), ((3,),)]),
        ("Mbpp/75", [[[1, 2]], 3], [[(1, 2)], 3]),
        ("Mbpp/250", [[1, 2], 3], [(1, 2), 3]),
        ("Mbpp/307", [["a", 5], 2, 50], [("a", 5), 2, 50]),
        ("Mbpp/106", [[5], [9]], [[5], (9,)]),
        ("Mbpp/115", [[[1, 2], []]], [[{1, 2}, {}]]),
        ("Mbpp/124", ["0", "1j"], [0.0, 1j]),
        ("Mbpp/252", ["1+2j"], [1 + 2j]),
        ("Mbpp/278", [[1, [2, 3]]], [(1, (2, 3))]),
        ("Mbpp/722", [{"a": [1, 2]}, 3, 4], [{"a": (1, 2)}, 3, 4]),
        ("Mbpp/580", [[1, [2, [3]]]], [(1, (2, (3,)))]),
        ("Mbpp/6", [[1, 2]], [[1, 2]]),
        ("HumanEval/2", [[1, 2]], [[1, 2]]),
    ],
)
def test_inputs_get_their_types_back(task_id: str, stored: list[Any], meant: list[Any]) -> None:
    assert repair_inputs(task_id, [stored]) == [meant]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_input": []}, "column 'base_input'"),
        ({"entry_point": None}, "column 'entry_point'"),
        ({"task_id": "../x"}, "column 'task_id'"),
        ({"plus_input": {"a": 1}}, "plus_input is not a list"),
        ({"task_id": "Mbpp/2", "base_input": [[1]]}, "not a row"),
        ({"atol": "much"}, "column 'atol'"),
    ],
)
def test_wrong_rows_are_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=r"^here, line 3: ") as caught:
        read_problem(json.dumps(row(**changes)), "here, line 3")
    assert words in str(caught.value)


def test_wrong_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lopd-gym data pull evalplus"):
        load_corpus(tmp_path)
    with pytest.raises(DataError, match="found neither"):
        load_corpus(tmp_path / "absent")
    torn = tmp_path / "HumanEvalPlus.jsonl.gz"
    torn.write_bytes(gzip.compress(json.dumps(row()).encode())[:-10])
    with pytest.raises(DataError, match="not a whole gzip file"):
        load_corpus(tmp_path)
    plain = tmp_path / "mine.jsonl"
    plain.write_text("\n")
    with pytest.raises(DataError, match="found none"):
        load_corpus(plain)
    plain.write_text(json.dumps(row()) + "\n[]\n")
    with pytest.raises(DataError, match=r"mine\.jsonl, line 2"):
        load_corpus(plain)
    plain.write_text(json.dumps(row()) + "\n")
    assert list(load_corpus(plain).problems) == ["Mbpp/999"]
