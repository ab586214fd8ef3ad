"""`VectorIndex`: approximate nearest neighbours of unit vectors, by HNSW (hnswlib).

It is derived from the store and never the truth: what is absent, stale or damaged on disk is
reported as None by `load`, and the caller builds it again. Built by one thread in the order of the
sequence numbers, it is a function of its vectors.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hnswlib
import numpy as np
from numpy.typing import NDArray

INDEX_FILE = "index.hnsw"
MANIFEST_FILE = "index.json"

_LINKS = 16
_BUILD_WIDTH = 200
_SEARCH_WIDTH = 100
_EXHAUSTIVE_UP_TO = 2_000
"""Indexes up to this size are searched exhaustively, ties included: it costs little, and makes the
answers independent of history (an index that was saved and grows draws other levels)."""
_TIE = 1e-5

StoredVectors = Callable[[int, int], Iterable[tuple[NDArray[np.int64], NDArray[np.float32]]]]
"""Given (after, up to), returns the stored sequence numbers in that range and their vectors."""


class VectorIndex:
    """Unit vectors of one dimension, each under a sequence number; sequence numbers only grow."""

    def __init__(self, dim: int, graph: Any = None) -> None:
        self.dim = dim
        self.last_seq = 0
        self._digest = hashlib.sha256()
        self._graph = graph if graph is not None else _empty_graph(dim)

    def __len__(self) -> int:
        return int(self._graph.get_current_count())

    @property
    def digest(self) -> str:
        """A hash of all vectors, in order."""
        return self._digest.hexdigest()

    def add(self, seqs: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Append vectors [n, dim] under increasing sequence numbers [n]."""
        if not len(seqs):
            return
        needed = len(self) + len(seqs)
        if needed > self._graph.get_max_elements():
            self._graph.resize_index(max(needed, 2 * len(self), 1_024))
        self._graph.add_items(vectors, seqs, num_threads=1)
        self._note(seqs, vectors)

    def nearest(self, vector: NDArray[np.float32], count: int) -> list[int]:
        """Return the sequence numbers of the nearest vectors, nearest first.

        A small index also returns those that are as near as the last one. None are returned when
        the graph cannot reach ``min(count, len(self))`` vectors.
        """
        size = len(self)
        count = min(count, size)
        if count == 0:
            return []
        fetched = size if size <= _EXHAUSTIVE_UP_TO else count
        self._graph.set_ef(max(_SEARCH_WIDTH, fetched))
        try:
            found = self._graph.knn_query(vector[None], k=fetched, num_threads=1)
        except RuntimeError:  # what hnswlib raises for "found fewer than k"
            return []
        labels, distances = found[0][0], found[1][0]
        as_near = int(np.searchsorted(distances, distances[count - 1] + _TIE, side="right"))
        return [int(label) for label in labels[:as_near]]

    def save(self, folder: Path) -> None:
        """Write the index and its manifest; a reader in between sees a mismatch, not a mixture.

        Raises:
            OSError: The folder cannot be written, or the disk is full.
        """
        with tempfile.TemporaryDirectory(dir=folder, prefix=".index-") as partial:
            graph, manifest = Path(partial, INDEX_FILE), Path(partial, MANIFEST_FILE)
            self._graph.save_index(str(graph))
            if graph.stat().st_size != self._graph.index_file_size():
                raise OSError(f"Only a part of {graph} was written.")
            described = _build(self.dim) | {
                "count": len(self),
                "last_seq": self.last_seq,
                "vectors_sha256": self.digest,
                "file_sha256": _file_digest(graph),
            }
            manifest.write_text(json.dumps(described, indent=1), encoding="utf-8")
            os.replace(graph, folder / INDEX_FILE)
            os.replace(manifest, folder / MANIFEST_FILE)

    @classmethod
    def load(cls, folder: Path, dim: int, stored: StoredVectors) -> VectorIndex | None:
        """Return the saved index if it is whole and belongs to the stored vectors, else None."""
        try:
            manifest = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
            same_build = manifest.items() >= _build(dim).items()
            if not same_build or manifest["file_sha256"] != _file_digest(folder / INDEX_FILE):
                return None
            graph = hnswlib.Index("ip", dim)
            graph.load_index(str(folder / INDEX_FILE))
            index = cls(dim, graph)
            for seqs, vectors in stored(0, manifest["last_seq"]):
                index._note(seqs, vectors)
            return index if index.digest == manifest["vectors_sha256"] else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
            return None

    def _note(self, seqs: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        self._digest.update(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        self.last_seq = int(seqs[-1])


def _empty_graph(dim: int) -> Any:
    graph = hnswlib.Index("ip", dim)
    graph.init_index(1_024, M=_LINKS, ef_construction=_BUILD_WIDTH, random_seed=1)
    return graph


def _build(dim: int) -> dict[str, Any]:
    """Everything but the vectors that an index file depends on."""
    return {
        "hnswlib": version("hnswlib"),
        "dim": dim,
        "links": _LINKS,
        "build_width": _BUILD_WIDTH,
    }


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
