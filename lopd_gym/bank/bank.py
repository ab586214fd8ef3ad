"""`Bank`: experiences, found by the nearness of their task to a query.

It joins three parts: the store (the truth), the embedder, and the index, which is derived from
the store and follows it lazily: whatever was added by this or another process is indexed at the
next search.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from lopd_gym.bank.embed import DEFAULT_EMBEDDER, Embedder, get_embedder
from lopd_gym.bank.experience import MIN_SCORE, Experience, experience_from, storable
from lopd_gym.bank.index import VectorIndex
from lopd_gym.bank.jsonl import read_jsonl, write_jsonl
from lopd_gym.bank.store import DATABASE_FILE, Store
from lopd_gym.episode import Episode
from lopd_gym.errors import LopdGymError, UsageError
from lopd_gym.tasks import TRAIN_SPLIT

_SPARE = 10
"""How many more neighbours than asked are fetched, for those that filters take out."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An experience that was found, and the cosine similarity of its task to the query."""

    experience: Experience
    similarity: float


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What a bank holds of one group of one environment."""

    env: str
    group: str
    experiences: int
    tasks: int
    mean_trace_chars: float


@dataclass(frozen=True, slots=True)
class BankStats:
    """What a bank holds. ``indexed`` of ``instructions`` distinct task texts are in the index."""

    experiences: int
    instructions: int
    indexed: int
    embedder: str
    dim: int
    groups: tuple[GroupStats, ...]


class Bank:
    """A folder with a store and its index. Several processes may have it open at once."""

    def __init__(self, folder: Path, store: Store, embedder: Embedder) -> None:
        self.folder = folder
        self.embedder = embedder
        self._store = store
        self._lock = threading.RLock()
        self._index: VectorIndex | None = None
        self._saved_seq = -1

    @classmethod
    def open(
        cls, folder: Path | str, embedder: Embedder | str | None = None, *, create: bool = True
    ) -> Bank:
        """Open the bank in a folder, or begin a new one.

        Args:
            folder: Where the bank is kept.
            embedder: An embedder or its name; None takes the one the bank was made with.
            create: Whether a bank that does not exist is begun.

        Raises:
            UsageError: There is no bank and ``create`` is False, or it has another embedder.
            DataError: The database is damaged or of another format.
        """
        folder = Path(folder)
        exists = (folder / DATABASE_FILE).exists()
        if not exists and not create:
            raise UsageError(f"There is no bank in '{folder}': expected {DATABASE_FILE} there.")
        _make_folder(folder)
        store = Store(folder)
        try:
            if embedder is None or isinstance(embedder, str):
                embedder = get_embedder(embedder or store.embedder or DEFAULT_EMBEDDER)
            if not store.embedder:
                store.begin(embedder.identity, embedder.dim)
            if (store.embedder, store.dim) != (embedder.identity, embedder.dim):
                raise UsageError(
                    f"The bank in '{folder}' was embedded by '{store.embedder}', not by "
                    f"'{embedder.identity}': open it with that, or export it and import it into a "
                    "new bank."
                )
        except BaseException:
            store.close()
            raise
        return cls(folder, store, embedder)

    def close(self) -> None:
        """Save the index, if it has changed, and close the database."""
        with self._lock:
            self.save_index()
            self._store.close()

    def __enter__(self) -> Bank:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        with self._lock:
            return len(self._store)

    def __iter__(self) -> Iterator[Experience]:
        """Yield all experiences in the order in which they were added."""
        with self._lock:
            return iter(list(self._store.experiences()))

    # -- writing -----------------------------------------------------------------------------

    def add(self, experiences: Iterable[Experience]) -> int:
        """Add experiences, all or none; return how many were new.

        Raises:
            UsageError: One is not of the training split: what is evaluated must not be learned.
        """
        batch = list(experiences)
        for experience in batch:
            if experience.split != TRAIN_SPLIT:
                raise UsageError(
                    f"Task '{experience.task_id}' is of split '{experience.split}': only tasks of "
                    f"split '{TRAIN_SPLIT}' may enter a bank."
                )
        with self._lock:
            instructions = dict.fromkeys(e.instruction for e in batch)
            new = [text for text in instructions if not self._store.has_instruction(text)]
            vectors = dict(zip(new, self._embed(new), strict=True))
            return self._store.insert(batch, vectors)

    def fill(self, episodes: Iterable[Episode], min_score: float = MIN_SCORE) -> int:
        """Add what is worth remembering of episodes; return how many experiences were new.

        Episodes that failed or scored below ``min_score`` leave nothing.
        """
        found = (experience_from(episode, min_score) for episode in episodes)
        return self.add(e for e in found if e is not None)

    def keep(self, count: int) -> None:
        """Forget all but the first ``count`` experiences, in the order in which they were added.

        For the one process that has the bank open, to go back to an earlier state of its own.
        """
        with self._lock:
            self._store.keep(count)
            self._index = None  # the numbers of what was forgotten are given out again

    def export_jsonl(self, path: Path | str) -> int:
        """Write all experiences to a JSON-lines file; return how many."""
        return write_jsonl(Path(path), self)

    def import_jsonl(self, path: Path | str) -> int:
        """Add the experiences of a JSON-lines file, all or none; return how many were new.

        Raises:
            DataError: The file cannot be read or a line is not an experience.
            UsageError: A line is of an evaluation split.
        """
        return self.add(read_jsonl(Path(path)))

    def save_index(self) -> None:
        """Save the index beside the database, where it can be: it is only derived."""
        with self._lock:
            if self._index is None or self._index.last_seq == self._saved_seq:
                return
            try:
                self._index.save(self.folder)
            except OSError:
                return
            self._saved_seq = self._index.last_seq

    # -- reading -----------------------------------------------------------------------------

    def search(
        self,
        query: str,
        k: int,
        *,
        env: str | None = None,
        split: str | None = None,
        exclude_task: str | None = None,
        allow_same_instruction: bool = False,
    ) -> list[Hit]:
        """Return the k experiences whose task is most similar to the query's, by the index.

        Args:
            query: A task text.
            k: How many; fewer are returned only if the filters leave fewer.
            env: Only experiences of the environment with this label.
            split: Only experiences of this split.
            exclude_task: Leave out the experiences of this task.
            allow_same_instruction: Whether experiences of exactly this task text may be found.

        Returns:
            Hits in order of falling similarity, then of id.
        """
        wanted = _Wanted(storable(query), k, env, split, exclude_task, allow_same_instruction)
        with self._lock:
            vector = self._embed([wanted.query])[0]
            index = self._current_index()
            for width in (k + _SPARE, 10 * (k + _SPARE)):
                hits = self._rank(vector, wanted, index.nearest(vector, width))
                if len(hits) >= k:
                    return hits
            return self._rank(vector, wanted)

    def search_exact(
        self,
        query: str,
        k: int,
        *,
        env: str | None = None,
        split: str | None = None,
        exclude_task: str | None = None,
        allow_same_instruction: bool = False,
    ) -> list[Hit]:
        """Do what `search` does by comparing with every experience: the reference for recall."""
        wanted = _Wanted(storable(query), k, env, split, exclude_task, allow_same_instruction)
        with self._lock:
            return self._rank(self._embed([wanted.query])[0], wanted)

    def stats(self) -> BankStats:
        """Count what the bank holds, and bring the index up to date."""
        with self._lock:
            return BankStats(
                experiences=len(self._store),
                instructions=self._store.count_instructions(),
                indexed=len(self._current_index()),
                embedder=self._store.embedder,
                dim=self._store.dim,
                groups=tuple(GroupStats(*row) for row in self._store.group_counts()),
            )

    # -- inside ------------------------------------------------------------------------------

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self.embedder.embed(texts)
        expected = (len(texts), self.embedder.dim)
        lengths = np.linalg.norm(vectors, axis=-1)
        if vectors.shape != expected or not (abs(lengths - 1.0) < 1e-3).all():
            raise LopdGymError(
                f"The embedder '{self.embedder.identity}' must return unit rows of shape "
                f"{expected}, and returned {vectors.shape} of lengths {lengths}."
            )
        return vectors

    def _current_index(self) -> VectorIndex:
        """Return the index, loaded or built if need be, with everything that is stored in it."""
        if self._index is None:
            loaded = VectorIndex.load(self.folder, self._store.dim, self._store.vector_blocks)
            self._index = loaded or VectorIndex(self._store.dim)
            self._saved_seq = loaded.last_seq if loaded else 0
        newest = self._store.last_seq()
        for seqs, vectors in self._store.vector_blocks(self._index.last_seq, newest):
            self._index.add(seqs, vectors)
        return self._index

    def _rank(
        self, vector: NDArray[np.float32], wanted: _Wanted, seqs: Sequence[int] | None = None
    ) -> list[Hit]:
        """Compare exactly with the experiences of some instructions (None: of all)."""
        experiences, vectors = self._store.candidates(wanted.columns(), seqs)
        rows = np.array([i for i, e in enumerate(experiences) if wanted.accepts(e)], np.int64)
        rough = vectors[rows] @ vector
        if len(rows) > wanted.k:  # the last bits of a float32 product depend on its batch
            rows = rows[rough >= np.partition(rough, -wanted.k)[-wanted.k] - 1e-5]
        similar = (vectors[rows].astype(np.float64) @ vector.astype(np.float64)).round(6)
        nearest = np.argsort(-similar, kind="stable")[: wanted.k]  # rows come in order of id
        return [Hit(experiences[rows[i]], float(similar[i])) for i in nearest]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a search asks for."""

    query: str
    k: int
    env: str | None
    split: str | None
    exclude_task: str | None
    allow_same_instruction: bool

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UsageError(f"A search needs k of at least 1, not {self.k}.")

    def columns(self) -> dict[str, str]:
        given = {"env": self.env, "split": self.split}
        return {column: value for column, value in given.items() if value is not None}

    def accepts(self, experience: Experience) -> bool:
        if experience.task_id == self.exclude_task:
            return False
        return self.allow_same_instruction or experience.instruction != self.query


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise LopdGymError(f"Cannot make the folder '{folder}': {err.strerror}.") from err
