"""Load HumanEval+ and MBPP+ from the files of their releases."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from lopd_envs.evalplus.repair import repair_inputs
from lopd_gym.errors import DataError

FILES = ("HumanEvalPlus.jsonl", "MbppPlus.jsonl")
"""What a data folder may hold, each also as ``.gz``."""

MAX_FILE_BYTES = 1 << 30


class _Row(BaseModel):
    """The columns that are read; a release has more."""

    task_id: Annotated[str, Field(pattern=r"^[A-Za-z]+/\d+$")]
    prompt: str
    entry_point: str
    canonical_solution: str
    base_input: Annotated[list[list[Any]], Field(min_length=1)]
    plus_input: list[list[Any]] | dict[str, Any]
    atol: float


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One function to write.

    Attributes:
        id: E.g. ``HumanEval/0``.
        prompt: The statement as Python text: signature with docstring, or a docstring alone.
        entry_point: Name of the function.
        reference: A whole program that solves it; third-party code, to be run in a sandbox only.
        base: Inputs of the original benchmark, each a list of arguments; never empty.
        plus: The further inputs.
        tolerance: Absolute tolerance for numbers, 0 for none.
    """

    id: str
    prompt: str
    entry_point: str
    reference: str
    base: tuple[list[Any], ...]
    plus: tuple[list[Any], ...]
    tolerance: float = 0.0

    @property
    def inputs(self) -> tuple[list[Any], ...]:
        """All inputs: base, then plus."""
        return self.base + self.plus


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """Problems by id, and a hash of the data they come from.

    ``name`` is empty for the release. ``splits`` lists the ids of splits, where the data has its
    own.
    """

    problems: Mapping[str, Problem]
    hash: str
    name: str = ""
    splits: Mapping[str, list[str]] = field(default_factory=dict)


def load_corpus(path: Path) -> Corpus:
    """Load a data folder, or a single file such as ``HumanEvalPlus-Mini.jsonl.gz``.

    The same unchanged files are read once.

    Raises:
        DataError: There is no such data, or it is not what it should be.
    """
    files = tuple(find_files(path))
    stamps = tuple((f.stat().st_mtime_ns, f.stat().st_size) for f in files)
    return _load(files, stamps)


def find_files(path: Path) -> list[Path]:
    """Return the data files at ``path``; raises `DataError` if there are none."""
    if path.is_file():
        return [path]
    candidates = [[path / name, path / f"{name}.gz"] for name in FILES]
    found = [next((f for f in pair if f.is_file()), None) for pair in candidates]
    files = [f for f in found if f is not None]
    if not files:
        raise DataError(
            f"Expected {' or '.join(FILES)} (or .gz) in {path}, found neither: run "
            "'lopd-gym data pull evalplus', or pass --data with a folder or one such file."
        )
    return files


@lru_cache(maxsize=4)
def _load(files: tuple[Path, ...], stamps: tuple[tuple[int, int], ...]) -> Corpus:
    digest = hashlib.sha256()
    problems: dict[str, Problem] = {}
    for file in files:
        content = _read(file)
        digest.update(content)
        for number, line in enumerate(content.splitlines(), start=1):
            if line.strip():
                problem = read_problem(line, f"{file}, line {number}")
                problems[problem.id] = problem
    if not problems:
        raise DataError(f"Expected one problem a line in {files[0]}, found none.")
    return Corpus(problems, digest.hexdigest())


def _read(file: Path) -> bytes:
    if file.suffix != ".gz":
        return file.read_bytes()
    try:
        with gzip.open(file) as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as err:
        raise DataError(f"{file} is not a whole gzip file ({err}): fetch it again.") from err
    if len(content) > MAX_FILE_BYTES:
        raise DataError(
            f"{file} unpacks to more than {MAX_FILE_BYTES >> 20} MiB; it is no release."
        )
    return content


def read_problem(line: bytes | str, where: str) -> Problem:
    """Read one row; ``where`` names it in errors.

    Raises:
        DataError: A column is missing or of another shape, or there is no base input.
    """
    try:
        row = _Row.model_validate(json.loads(line))
        plus = row.plus_input or []  # Mbpp/793 has an empty object in place of a list
        if not isinstance(plus, list):
            raise ValueError("plus_input is not a list")
        base, plus = (repair_inputs(row.task_id, part) for part in (row.base_input, plus))
    except ValidationError as err:
        problem = err.errors(include_url=False)[0]
        column = ".".join(str(p) for p in problem["loc"])
        raise DataError(f"{where}: column '{column}': {problem['msg']}.") from err
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as err:
        raise DataError(f"{where}: not a row of HumanEval+ or MBPP+ ({err}).") from err
    return Problem(
        id=row.task_id,
        prompt=row.prompt,
        entry_point=row.entry_point,
        reference=row.prompt + row.canonical_solution,
        base=tuple(base),
        plus=tuple(plus),
        tolerance=row.atol,
    )
