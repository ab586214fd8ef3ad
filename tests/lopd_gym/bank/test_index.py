"""The index is derived: whatever happens to it, the answers stay the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lopd_gym.bank import Bank
from lopd_gym.bank import index as index_module
from lopd_gym.bank.embed import unit_rows
from lopd_gym.bank.index import INDEX_FILE, MANIFEST_FILE, VectorIndex
from tests.lopd_gym.bank.helpers import experience

QUERY = "Cancel the parcel of customer 12, then refund it."


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    with Bank.open(folder) as bank:
        bank.add([experience(i) for i in range(400)])
        bank.search(QUERY, 1)
    return folder


def truncate(folder: Path) -> None:
    path = folder / INDEX_FILE
    path.write_bytes(path.read_bytes()[:-1000])


def flip_a_bit(folder: Path) -> None:
    content = bytearray((folder / INDEX_FILE).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / INDEX_FILE).write_bytes(content)


def change_manifest(key: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        manifest = json.loads((folder / MANIFEST_FILE).read_text())
        (folder / MANIFEST_FILE).write_text(json.dumps(manifest | {key: value}))

    return change


def replace_by_folder(folder: Path) -> None:
    (folder / INDEX_FILE).unlink()
    (folder / INDEX_FILE).mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "index absent": lambda folder: (folder / INDEX_FILE).unlink(),
    "manifest absent": lambda folder: (folder / MANIFEST_FILE).unlink(),
    "index empty": lambda folder: (folder / INDEX_FILE).write_bytes(b""),
    "index truncated": truncate,
    "bit flipped": flip_a_bit,
    "manifest not JSON": lambda folder: (folder / MANIFEST_FILE).write_text("{"),
    "manifest not an object": lambda folder: (folder / MANIFEST_FILE).write_text("[1]"),
    "other vectors": change_manifest("vectors_sha256", "0" * 64),
    "other range": change_manifest("last_seq", 399),
    "range not a number": change_manifest("last_seq", "all"),
    "other build": change_manifest("links", 4),
    "index a folder": replace_by_folder,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_index_changes_no_answer(
    saved: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    folder = tmp_path / "bank"
    shutil.copytree(saved, folder)
    with Bank.open(folder) as bank:
        expected = bank.search(QUERY, 20)
    damage(folder)
    with Bank.open(folder) as bank:
        assert bank.search(QUERY, 20) == expected
        assert bank.stats().indexed == 400


def test_a_whole_index_is_loaded_and_not_built_again(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the saved index was not used")

    monkeypatch.setattr(index_module.VectorIndex, "add", refuse)
    with Bank.open(saved) as bank:
        assert len(bank.search(QUERY, 5)) == 5


def test_a_stale_index_is_completed(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    shutil.copytree(saved, folder)
    with Bank.open(folder) as bank:
        bank.add([experience(i) for i in range(400, 1900)])
    assert json.loads((folder / MANIFEST_FILE).read_text())["count"] == 400
    with Bank.open(folder) as bank:
        assert bank.search(QUERY, 20) == bank.search_exact(QUERY, 20)
    assert json.loads((folder / MANIFEST_FILE).read_text())["count"] == 1900


def test_an_index_that_cannot_be_saved_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / INDEX_FILE / "in the way").mkdir(parents=True)
    with Bank.open(tmp_path) as bank:
        bank.add([experience(1)])
        assert len(bank.search(QUERY, 1)) == 1
    assert not list(tmp_path.glob(".index-*"))


def clustered(count: int, seed: int) -> np.ndarray:
    """Return unit vectors [count, 64] around 300 centres, as tasks lie around their kinds."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(300, 64))
    chosen = centres[generator.integers(300, size=count)]
    return unit_rows(chosen + 0.4 * generator.normal(size=(count, 64)))


def test_recall_at_ten_against_exact_search() -> None:
    vectors, queries = clustered(6_000, 1), clustered(200, 2)
    index = VectorIndex(64)
    for start in range(0, 6_000, 700):  # grows in steps, past its capacity
        rows = np.arange(start, min(start + 700, 6_000))
        index.add(rows + 1, vectors[rows])
    exact = np.argsort(-(queries @ vectors.T), axis=1)[:, :10] + 1
    found = [set(index.nearest(query, 10)) for query in queries]
    recall = np.mean([len(f & set(e)) / 10 for f, e in zip(found, exact, strict=True)])
    assert recall >= 0.98


def test_building_is_reproducible(tmp_path: Path) -> None:
    vectors = clustered(3_000, 3)
    digests = set()
    for name, step in (("whole", 3_000), ("steps", 450)):
        index = VectorIndex(64)
        for start in range(0, 3_000, step):
            rows = np.arange(start, min(start + step, 3_000))
            index.add(rows + 1, vectors[rows])
        folder = tmp_path / name
        folder.mkdir()
        index.save(folder)
        digests.add((index.digest, tuple(index.nearest(vectors[7], 50))))
    assert len(digests) == 1


def test_an_empty_index_finds_nothing() -> None:
    assert VectorIndex(8).nearest(np.ones(8, np.float32), 3) == []
