"""Embedders: from task texts to unit vectors.

The default needs no download and no fitting, so that a vector never changes once it is stored.
Retrieval should find the same *kind* of task; names, numbers and ids therefore weigh little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lopd_gym.errors import LopdGymError, UsageError, unknown_name

Vectors = NDArray[np.float32]

DEFAULT_EMBEDDER = "hashing"
_SENTENCE_TRANSFORMERS = "sentence-transformers:"


class Embedder(Protocol):
    """Turns texts into unit vectors.

    ``identity`` is a name that `get_embedder` understands; vectors of different identities are
    never mixed in one bank.
    """

    @property
    def identity(self) -> str:
        """The name under which `get_embedder` builds this embedder again."""
        ...

    @property
    def dim(self) -> int:
        """The length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, float32 [n, dim]."""
        ...


def get_embedder(name: str = DEFAULT_EMBEDDER) -> Embedder:
    """Build an embedder by name.

    Args:
        name: ``"hashing"`` or ``"sentence-transformers:NAME_OR_FOLDER"``.

    Raises:
        UsageError: No embedder has this name, or its extra is not installed.
        LopdGymError: The model cannot be loaded.
    """
    if name == DEFAULT_EMBEDDER:
        return HashingEmbedder()
    if name.startswith(_SENTENCE_TRANSFORMERS):
        return SentenceTransformersEmbedder(name.removeprefix(_SENTENCE_TRANSFORMERS))
    raise unknown_name("embedder", name, [DEFAULT_EMBEDDER, _SENTENCE_TRANSFORMERS + "NAME"])


class HashingEmbedder:
    """Signed feature hashing of the words of a text.

    A vector is the direction of the *kind* of task (words, with quoted strings, numbers, ids and
    capitalised names taken out) plus a small share of all words, which tells texts of one kind
    apart. Presence counts, not frequency: there are no document statistics that could change.
    """

    identity = DEFAULT_EMBEDDER
    dim = 512
    _ALL_WORDS_WEIGHT = 0.3
    _PARTICULARS = re.compile(
        r"""
        "[^"\n]*" | “[^”\n]*” | `[^`\n]*` | (?<!\w)'[^'\n]*'(?!\w)   # quoted strings
        | \b\w*\d[\w\-:./@]*                                         # numbers, dates, ids
        | (?<=[\w,;:]\ )[A-Z]\w*(?:\ [A-Z]\w*)*                      # names inside a sentence
        """,
        re.VERBOSE,
    )

    _WORD = re.compile(r"\w\w+")

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
        from sklearn.utils import murmurhash3_32

        self._stop_words = ENGLISH_STOP_WORDS
        self._hash = lru_cache(100_000)(murmurhash3_32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, float32 [n, dim]."""
        rows = np.empty((len(texts), self.dim))
        for row, text in zip(rows, texts, strict=True):
            kind = self._sum_of_words(self._PARTICULARS.sub(" ", text))
            row[:] = kind + self._ALL_WORDS_WEIGHT * self._sum_of_words(text)
        return unit_rows(rows)

    def _sum_of_words(self, text: str) -> NDArray[np.float64]:
        """Add each word's signed coordinate, and scale to length 1 [dim]."""
        words = set(self._WORD.findall(text.lower())) - self._stop_words
        total = np.zeros(self.dim)
        for word in words:
            code = self._hash(word)
            total[abs(code) % self.dim] += 1.0 if code >= 0 else -1.0
        return total / max(float(np.linalg.norm(total)), 1e-12)


class SentenceTransformersEmbedder:
    """A model of the sentence-transformers library, by hub name or folder."""

    def __init__(self, model: str) -> None:
        self.identity = _SENTENCE_TRANSFORMERS + model
        self._model = _load_sentence_transformer(model)
        self.dim = int(self._model.encode([""]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, float32 [n, dim]."""
        if not texts:
            return np.empty((0, self.dim), np.float32)
        return unit_rows(self._model.encode(list(texts), show_progress_bar=False))


def unit_rows(rows: NDArray[Any]) -> Vectors:
    """Scale rows to length 1; a row of zeros (an empty text) becomes the first unit vector."""
    rows = np.array(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    rows[lengths == 0, 0] = lengths[lengths == 0] = 1.0
    unit: Vectors = (rows / lengths[:, None]).astype(np.float32)
    return unit


def _load_sentence_transformer(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as err:
        raise UsageError(
            "The sentence-transformers embedder is an extra that is not installed: "
            "pip install 'lopd-gym[embeddings]'."
        ) from err
    try:
        return SentenceTransformer(model, device="cpu")
    except (OSError, ValueError) as err:
        raise LopdGymError(
            f"The embedding model '{model}' is neither a readable folder nor reachable on the hub: "
            "give the folder of a downloaded model, or connect to the network."
        ) from err
