"""Load LiveCodeBench's problems from the files of its releases.

A release is several gigabytes of tests, so they stay in the files: a problem remembers where its
row is, and its private tests are read when it is judged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from lopd_envs.livecodebench.testcases import TestCase, read_tests
from lopd_gym.errors import DataError

_PART = re.compile(r"test\d*\.jsonl")

RELEASES = {400: "v1", 511: "v2", 612: "v3", 713: "v4", 880: "v5", 1_055: "v6"}
"""The cumulative releases, by how many problems they hold."""


class _Row(BaseModel):
    """The columns that are read; ``private_test_cases`` is left where it is."""

    question_title: str
    question_content: str
    platform: Literal["leetcode", "codeforces", "atcoder"]
    question_id: str
    contest_date: datetime
    starter_code: str
    difficulty: Literal["easy", "medium", "hard"]
    public_test_cases: str
    private_test_cases: str
    metadata: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row lies: a file, and the offset of the line in bytes."""

    file: Path
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One contest problem.

    Attributes:
        id: The id that the contest site gave it.
        title: Its title.
        statement: Its text.
        published: When the contest took place.
        starter_code: The signature to complete; empty for a whole program.
        difficulty: ``easy``, ``medium`` or ``hard``.
        function: Name of the method to write; empty for a whole program.
        public: The tests that the statement shows.
        private: The hidden tests, or where their row lies.
    """

    id: str
    title: str
    statement: str
    published: date
    starter_code: str
    difficulty: str
    function: str
    public: tuple[TestCase, ...]
    private: tuple[TestCase, ...] | Place

    def tests(self) -> tuple[TestCase, ...]:
        """Return public and private tests, in this order.

        Raises:
            DataError: The private tests cannot be decoded, or are not of this problem's kind.
        """
        private = self.private
        if isinstance(private, Place):
            private = _private_tests(private, f"{private.file}, problem {self.id}")
        tests = self.public + private
        kind = "functional" if self.function else "stdin"
        if any(t.testtype != kind for t in tests):
            raise DataError(f"Problem {self.id}: expected only {kind} tests, found others.")
        return tests


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Problems by id, a hash of the data, and what the data is called (empty if unknown).

    ``references`` are programs that solve problems, where any are known.
    """

    problems: Mapping[str, Problem]
    hash: str
    name: str
    references: Mapping[str, str] = field(default_factory=dict)


def load_corpus(path: Path) -> Corpus:
    """Load a folder with ``test.jsonl``, ``test2.jsonl`` and so on, or a single file.

    The same unchanged files are read once.

    Raises:
        DataError: There is no such data, or it is not what it should be.
    """
    files = tuple(_find_files(path))
    return _load(files, tuple((f.stat().st_mtime_ns, f.stat().st_size) for f in files))


def _find_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(f for f in path.glob("*.jsonl") if _PART.fullmatch(f.name))
    if not files:
        raise DataError(
            f"Expected test.jsonl, test2.jsonl ... in {path}, found none: fetch them from "
            "huggingface.co/datasets/livecodebench/code_generation_lite, or pass --data with a "
            "folder or one such file."
        )
    return files


@lru_cache(maxsize=4)
def _load(files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]) -> Corpus:
    digest = hashlib.sha256()
    problems: dict[str, Problem] = {}
    for file in files:
        for number, (offset, line) in enumerate(_lines(file), start=1):
            digest.update(line)
            if line.strip():
                problem = _read_problem(line, Place(file, offset), f"{file}, line {number}")
                problems[problem.id] = problem
    if not problems:
        raise DataError(f"Expected one problem a line in {files[0]}, found none.")
    release = RELEASES.get(len(problems))
    return Corpus(problems, digest.hexdigest(), f"release_{release}" if release else "")


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with file.open("rb") as stream:
        for line in stream:
            yield offset, line
            offset += len(line)


def _read_problem(line: bytes, place: Place, where: str) -> Problem:
    row = _read_row(line, where)
    try:
        metadata: Any = json.loads(row.metadata or "{}")
        function = str(metadata.get("func_name") or "")
    except (ValueError, AttributeError) as err:
        raise DataError(f"{where}: column 'metadata' is no JSON object ({err}).") from err
    if bool(row.starter_code) is not bool(function):
        raise DataError(f"{where}: expected starter code and func_name, or neither; found one.")
    return Problem(
        id=row.question_id,
        title=row.question_title,
        statement=row.question_content,
        published=row.contest_date.date(),
        starter_code=row.starter_code,
        difficulty=row.difficulty,
        function=function,
        public=read_tests(row.public_test_cases, f"{where}, column 'public_test_cases'"),
        private=place,
    )


def _read_row(line: bytes, where: str) -> _Row:
    try:
        return _Row.model_validate(json.loads(line))
    except ValidationError as err:
        problem = err.errors(include_url=False)[0]
        column = ".".join(str(p) for p in problem["loc"])
        raise DataError(f"{where}: column '{column}': {problem['msg']}.") from err
    except ValueError as err:
        raise DataError(f"{where}: not a row of LiveCodeBench ({err}).") from err


def _private_tests(place: Place, where: str) -> tuple[TestCase, ...]:
    try:
        with place.file.open("rb") as stream:
            stream.seek(place.offset)
            line = stream.readline()
    except OSError as err:
        raise DataError(f"{where}: the file can no longer be read ({err.strerror}).") from err
    return read_tests(_read_row(line, where).private_test_cases, where)
