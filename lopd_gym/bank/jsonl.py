"""Experiences as JSON lines, to carry a bank from one place to another.

One object per line with the fields of `Experience`. Vectors are not carried: whoever reads the
file embeds the texts again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from lopd_gym.bank.experience import Experience
from lopd_gym.errors import DataError, LopdGymError


def write_jsonl(path: Path, experiences: Iterable[Experience]) -> int:
    """Write experiences, whole or not at all; return how many.

    Raises:
        LopdGymError: The file cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8", newline="\n") as out:
            for experience in experiences:
                out.write(json.dumps(asdict(experience), ensure_ascii=False) + "\n")
                count += 1
        os.replace(partial, path)
    except OSError as err:
        partial.unlink(missing_ok=True)
        raise LopdGymError(f"Cannot write '{path}': {err.strerror}.") from err
    return count


def read_jsonl(path: Path) -> Iterator[Experience]:
    """Yield the experiences of a file, each line validated.

    Raises:
        DataError: The file cannot be read, or a line is not an experience.
    """
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(Experience)
    number = 0
    try:
        with path.open("rb") as lines:  # bytes end at "\n" only, never at Unicode separators
            for line in lines:
                number += 1
                if line.strip():
                    yield adapter.validate_json(line)
    except OSError as err:
        raise DataError(f"Cannot read '{path}': {err.strerror}.") from err
    except ValidationError as err:
        problem = err.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"]) or "the line"
        raise DataError(
            f"{path}, line {number}: expected an experience, but {where}: {problem['msg']}."
        ) from err
