"""Load the EnvScaler release, or a part of it, into one form.

Two encodings are in circulation: the hub's (lists, with nested values as JSON strings) and the
repository's (a mapping or list, nested values native). Both give the same corpus with the same
hash. Loading checks shape and syntax and executes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from lopd_envs.envscaler import dataset
from lopd_envs.envscaler.inspection import check_record, check_source, check_tools, native
from lopd_gym.data import verify_file
from lopd_gym.errors import DataError
from lopd_gym.messages import ToolSpec

ENVIRONMENT_FILES = (
    dataset.ENVIRONMENTS.filename,
    "191_env_metadata.json",
    "env_metadata_subset.json",
)
SCENARIO_FILES = (
    dataset.SCENARIOS.filename,
    "rl_scenario_metadata.json",
    "rl_scenarios_subset.json",
)
"""Names in the hub's encoding, in the repository's, and of a part of the release."""

_COUNTS = dict.fromkeys(ENVIRONMENT_FILES[:2], 191) | dict.fromkeys(SCENARIO_FILES[:2], 2_550)
_PINNED = {
    dataset.ENVIRONMENTS.filename: dataset.ENVIRONMENTS.sha256,
    dataset.SCENARIOS.filename: dataset.SCENARIOS.sha256,
    "191_env_metadata.json": "d2c0010f16ff77d6d55868ee386353b1d0aadace58beed1eed678e8f7c84c33d",
}
_SUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class Environment:
    """A class of systems: its source, its tools, and what a policy is told about it."""

    id: str
    class_name: str
    source: str
    introduction: str
    rules: tuple[str, ...]
    tools: tuple[ToolSpec, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task in an environment. ``init_config`` is JSON text; checks are (name, source)."""

    id: str
    env_id: str
    task: str
    init_config: str
    checks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Environments by id, scenarios in the order of the file, and a hash of both.

    ``faults`` holds, by environment or scenario id, what is wrong with sources of the pinned
    release itself; in any other file such a fault is an error.
    """

    environments: Mapping[str, Environment]
    scenarios: tuple[Scenario, ...]
    hash: str
    faults: Mapping[str, str]

    def playable(self, scenario: Scenario) -> bool:
        """Whether a scenario can be scored and nothing is wrong with its sources."""
        faulty = scenario.id in self.faults or scenario.env_id in self.faults
        return bool(scenario.checks) and not faulty


def load_corpus(folder: Path) -> Corpus:
    """Load the two files of the release, or of a part of it, from a folder.

    Raises:
        DataError: A file is missing, truncated, altered, or not of the expected shape.
    """
    paths = _find(folder, ENVIRONMENT_FILES), _find(folder, SCENARIO_FILES)
    stamps = tuple((p, p.stat().st_mtime_ns, p.stat().st_size) for p in paths)
    return _load(stamps)


@lru_cache(maxsize=4)
def _load(stamps: tuple[tuple[Path, int, int], ...]) -> Corpus:
    environment_path, scenario_path = (path for path, _, _ in stamps)
    environments: dict[str, Environment] = {}
    faults: dict[str, str] = {}
    for where, record in _records(environment_path, "env_id"):
        environment = _environment(record, where)
        environments[environment.id] = environment
        with _noting(faults, environment.id, environment_path):
            check_source(environment.source, environment.class_name, where)
    scenarios = []
    for where, record in _records(scenario_path, "task_id"):
        scenario = _scenario(record, environments, where)
        scenarios.append(scenario)
        with _noting(faults, scenario.id, scenario_path):
            for number, (_, source) in enumerate(scenario.checks):
                check_source(source, "check_func", f"{where}, check {number}")
    digest = hashlib.sha256()
    for name in sorted(environments):
        digest.update(_identity(environments[name]))
    for scenario in scenarios:
        digest.update(_identity(scenario))
    return Corpus(environments, tuple(scenarios), digest.hexdigest(), faults)


@contextmanager
def _noting(faults: dict[str, str], name: str, path: Path) -> Iterator[None]:
    """Note faults of the pinned release, which is what it is, and raise those of other files."""
    try:
        yield
    except DataError as err:
        if path.name not in _PINNED:
            raise
        faults[name] = str(err)


def _find(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return (folder / name).resolve()
    there = sorted(p.name for p in folder.glob("*.json")) if folder.is_dir() else []
    found = ", ".join(there) or "no JSON file"
    raise DataError(
        f"{folder}: expected one of {', '.join(names)}, found {found}; "
        "'lopd-gym data pull envscaler' fetches the release."
    )


def _records(path: Path, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a file with the words that locate them; checks count and unique ids."""
    expected_hash = _sums(path.parent).get(path.name) or _PINNED.get(path.name)
    if expected_hash:
        verify_file(path, expected_hash)
    try:
        whole = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as err:
        raise DataError(
            f"{path}: expected whole JSON, found an end or fault in it ({err}); the file is "
            "truncated or altered."
        ) from err
    records = list(whole.values()) if isinstance(whole, dict) else whole
    if not isinstance(records, list) or not records:
        found = "none" if records == [] else type(records).__name__
        raise DataError(f"{path}: expected records, found {found}.")
    count = _COUNTS.get(path.name, len(records))
    if len(records) != count:
        raise DataError(f"{path}: expected {count} records, found {len(records)}.")
    seen = set()
    for number, record in enumerate(records):
        where = f"{path}, record {number}"
        check_record(record, {key: str}, where)
        if record[key] in seen:
            raise DataError(f"{where}: expected unique ids, found {key} '{record[key]}' twice.")
        seen.add(record[key])
        yield f"{path}, {record[key]}", record


def _sums(folder: Path) -> dict[str, str]:
    """Read the SHA256SUMS of a folder, where it has one."""
    path = folder / _SUMS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}


def _environment(record: dict[str, Any], where: str) -> Environment:
    expected = {
        "env_class_name": str,
        "env_class_code": str,
        "environment_introduction": str,
        "constraints_rules": list,
    }
    check_record(record, expected, where)
    return Environment(
        id=record["env_id"],
        class_name=record["env_class_name"],
        source=record["env_class_code"],
        introduction=record["environment_introduction"],
        rules=tuple(str(rule) for rule in record["constraints_rules"]),
        tools=check_tools(native(record, "tools", list, where), where),
    )


def _scenario(
    record: dict[str, Any], environments: Mapping[str, Environment], where: str
) -> Scenario:
    check_record(record, {"env_id": str, "env_class_name": str, "task": str}, where)
    environment = environments.get(record["env_id"])
    if environment is None:
        raise DataError(f"{where}: expected a known env_id, found '{record['env_id']}'.")
    if record["env_class_name"] != environment.class_name:
        raise DataError(
            f"{where}: expected the class name '{environment.class_name}' of {environment.id}, "
            f"found '{record['env_class_name']}'."
        )
    checks = []
    items = native(record, "checklist_with_func", list, where) if _has_checks(record) else []
    for number, item in enumerate(items):
        here = f"{where}, check {number}"
        check_record(item, {"check_item": str, "check_func": str}, here)
        checks.append((item["check_item"], item["check_func"]))
    return Scenario(
        id=record["task_id"],
        env_id=environment.id,
        task=record["task"],
        init_config=json.dumps(native(record, "init_config", dict, where)),
        checks=tuple(checks),
    )


def _has_checks(record: Mapping[str, Any]) -> bool:
    return bool(record.get("checklist_with_func"))


def _identity(item: Environment | Scenario) -> bytes:
    values = {name: getattr(item, name) for name in item.__slots__}
    if isinstance(item, Environment):
        values["tools"] = [tool.as_openai() for tool in item.tools]
    return json.dumps(values).encode()
