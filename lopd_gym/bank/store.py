"""`Store`: the bank's SQLite database, which is the truth.

Two tables: each distinct instruction with its vector, and the experiences that belong to it. The
write-ahead log lets many readers work beside one writer; a committed insert survives a kill.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lopd_gym.bank.experience import Experience
from lopd_gym.errors import DataError

DATABASE_FILE = "bank.sqlite"

_SCHEMA_VERSION = "1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS instructions (
    seq INTEGER PRIMARY KEY, instruction TEXT NOT NULL UNIQUE, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS experiences (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    instruction_seq INTEGER NOT NULL REFERENCES instructions (seq),
    env TEXT NOT NULL, split TEXT NOT NULL, task_id TEXT NOT NULL, "group" TEXT NOT NULL,
    trace TEXT NOT NULL, score REAL NOT NULL, policy_version INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS by_instruction ON experiences (instruction_seq);
"""
_FIELDS = 'env, split, task_id, "group", instruction, trace, score, policy_version'
_JOINED = "experiences JOIN instructions ON instructions.seq = instruction_seq"
_MAX_PARAMETERS = 30_000  # below SQLite's default limit of 32,766

_BLOCK_ROWS = 4_096
_TIMEOUT_S = 60.0
"""How long another process's work on the database is waited for."""

Vectors = NDArray[np.float32]
VectorBlock = tuple[NDArray[np.int64], Vectors]


class Store:
    """One open database. Not safe for use by several threads at once; `Bank` holds the lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / DATABASE_FILE
        with self._errors():
            self._db = sqlite3.connect(
                self.path, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._errors():
                self._use_write_ahead_log()
                self._db.execute("PRAGMA synchronous = FULL")
            self.embedder, self.dim = self._read_meta()
        except BaseException:
            self._db.close()
            raise

    def begin(self, embedder: str, dim: int) -> None:
        """Make the tables of a new bank, unless another process was faster."""
        meta = {"schema": _SCHEMA_VERSION, "embedder": embedder, "dim": str(dim)}
        with self._transaction():
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", meta.items())
        self.embedder, self.dim = self._read_meta()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def insert(
        self, experiences: Sequence[Experience], vectors: Mapping[str, NDArray[np.float32]]
    ) -> int:
        """Insert experiences in one transaction; return how many were new.

        Args:
            experiences: What to insert; those whose id is known are skipped.
            vectors: The vector [dim] of every instruction that is not stored yet.
        """
        added = 0
        with self._transaction():
            for experience in experiences:
                values = asdict(experience)
                if (vector := vectors.get(experience.instruction)) is not None:
                    self._db.execute(
                        "INSERT OR IGNORE INTO instructions (instruction, vector) VALUES (?, ?)",
                        (experience.instruction, vector.astype("<f4").tobytes()),
                    )
                added += self._db.execute(
                    "INSERT OR IGNORE INTO experiences (id, instruction_seq, env, split, task_id,"
                    ' "group", trace, score, policy_version)'
                    " SELECT :id, seq, :env, :split, :task_id, :group, :trace, :score,"
                    " :policy_version FROM instructions WHERE instruction = :instruction",
                    values | {"id": experience.id},
                ).rowcount
        return added

    def keep(self, count: int) -> None:
        """Delete all but the first ``count`` experiences, and instructions that have none left."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM experiences WHERE seq NOT IN"
                " (SELECT seq FROM experiences ORDER BY seq LIMIT ?)",
                [count],
            )
            self._db.execute(
                "DELETE FROM instructions WHERE seq NOT IN"
                " (SELECT instruction_seq FROM experiences)"
            )

    def __len__(self) -> int:
        return int(self._rows("SELECT count(*) FROM experiences")[0][0])

    def count_instructions(self) -> int:
        """Return the number of distinct instructions."""
        return int(self._rows("SELECT count(*) FROM instructions")[0][0])

    def last_seq(self) -> int:
        """Return the sequence number of the newest instruction, 0 if there is none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM instructions")[0][0])

    def has_instruction(self, instruction: str) -> bool:
        """Whether this instruction is stored, with its vector."""
        found = self._rows("SELECT 1 FROM instructions WHERE instruction = ?", [instruction])
        return bool(found)

    def vector_blocks(self, after: int, up_to: int) -> Iterator[VectorBlock]:
        """Yield sequence numbers [n] and vectors [n, dim] of the instructions in a range."""
        query = "SELECT seq, vector FROM instructions WHERE seq > ? AND seq <= ? ORDER BY seq"
        while rows := self._rows(f"{query} LIMIT {_BLOCK_ROWS}", [after, up_to]):
            seqs, blobs = zip(*rows, strict=True)
            yield np.array(seqs, np.int64), self._matrix(blobs)
            after = seqs[-1]

    def candidates(
        self, filters: Mapping[str, str], seqs: Sequence[int] | None = None
    ) -> tuple[list[Experience], Vectors]:
        """Return experiences, in order of their id, and the vectors [n, dim] of their tasks.

        Args:
            filters: Values that the columns ``env`` and ``split`` must have.
            seqs: Only experiences of these instructions; None for all.
        """
        conditions = [f"{column} = ?" for column in filters]
        values: list[Any] = list(filters.values())
        if seqs is not None:
            seqs = seqs[:_MAX_PARAMETERS]
            conditions.append(f"instruction_seq IN ({','.join('?' * len(seqs))})")
            values += seqs
        where = " AND ".join(conditions) or "1"
        query = f"SELECT {_FIELDS}, vector FROM {_JOINED} WHERE {where} ORDER BY id"
        rows = self._rows(query, values)
        return [Experience(*row[:-1]) for row in rows], self._matrix([row[-1] for row in rows])

    def experiences(self) -> Iterator[Experience]:
        """Yield all experiences in the order in which they were added."""
        query = f"SELECT {_FIELDS} FROM {_JOINED} ORDER BY experiences.seq"
        with self._errors(), closing(self._db.execute(query)) as rows:
            for row in rows:
                yield Experience(*row)

    def group_counts(self) -> list[tuple[str, str, int, int, float]]:
        """Return (env, group, experiences, tasks, mean trace length in characters) per group."""
        return self._rows(
            'SELECT env, "group", count(*), count(DISTINCT task_id), avg(length(trace))'
            ' FROM experiences GROUP BY env, "group" ORDER BY env, "group"'
        )

    # -- inside ------------------------------------------------------------------------------

    def _use_write_ahead_log(self) -> None:
        """Switch the database to its write-ahead log.

        SQLite's own timeout does not hold here: of two processes that open a new bank at the same
        moment, one is refused at once, so it asks again.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as err:
                if err.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _read_meta(self) -> tuple[str, int]:
        """Return embedder and dimension, ("", 0) for a database that was not begun yet."""
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'meta'"):
            return "", 0
        meta = dict(self._rows("SELECT key, value FROM meta"))
        if meta.get("schema") != _SCHEMA_VERSION or not meta.get("dim", "").isdigit():
            raise DataError(
                f"{self.path} is not a bank of format {_SCHEMA_VERSION} (found "
                f"{meta.get('schema')}): export it with the version of lopd-gym that wrote it."
            )
        return meta["embedder"], int(meta["dim"])

    def _matrix(self, blobs: Sequence[bytes]) -> Vectors:
        if any(len(blob) != 4 * self.dim for blob in blobs):
            raise DataError(f"{self.path} holds a vector that is not of length {self.dim}.")
        return np.frombuffer(b"".join(blobs), "<f4").reshape(-1, self.dim).astype(np.float32)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._errors():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as err:
            raise DataError(f"The bank's database {self.path} cannot be used: {err}.") from err
