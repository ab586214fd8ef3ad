"""What is demanded of EnvScaler's records before anything in them is used. Executes nothing."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping
from typing import Any

from lopd_envs.envscaler.worker import IMPORTABLE
from lopd_gym.errors import DataError
from lopd_gym.messages import ToolSpec


def check_record(record: Any, expected: Mapping[str, type], where: str) -> None:
    """Raise `DataError` unless a record is a mapping with these keys and types of values."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected a JSON object, found {type(record).__name__}.")
    for key, kind in expected.items():
        if not isinstance(record.get(key), kind):
            found = type(record[key]).__name__ if key in record else "nothing"
            raise DataError(f"{where}: expected '{key}' of type {kind.__name__}, found {found}.")


def native(record: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """Return a nested value that may be given as itself or as a JSON string.

    Raises:
        DataError: The value is missing, not JSON, or not of this type.
    """
    value = record.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as err:
            raise DataError(f"{where}: expected JSON in '{key}', found a fault ({err}).") from err
    check_record({key: value}, {key: kind}, where)
    return value


def check_source(source: str, defined: str, where: str) -> None:
    """Raise `DataError` unless a source parses, defines a name, and imports only what it may."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in third-party strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise DataError(f"{where}: expected valid Python, found a fault ({err}).") from err
    names = {n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    if defined not in names:
        raise DataError(
            f"{where}: expected a definition of '{defined}', found {', '.join(sorted(names))}."
        )
    # Most sources are checks without imports, and walking their trees is what takes the time.
    for module in _imports(tree) if "import" in source else []:
        if module.partition(".")[0] not in IMPORTABLE:
            raise DataError(
                f"{where}: expected imports of harmless modules only, found '{module}'."
            )


def _imports(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append("." * node.level + (node.module or ""))
    return found


def check_tools(tools: list[Any], where: str) -> tuple[ToolSpec, ...]:
    """Return tools given in the OpenAI function format; raises `DataError` for another shape."""
    specs: dict[str, ToolSpec] = {}
    for number, tool in enumerate(tools):
        here = f"{where}, tool {number}"
        check_record(tool, {"function": dict}, here)
        function = tool["function"]
        check_record(function, {"name": str, "description": str, "parameters": dict}, here)
        parameters, name = function["parameters"], function["name"]
        check_record(parameters, {"properties": dict}, here)
        if name in specs:
            raise DataError(f"{where}: expected unique tool names, found '{name}' twice.")
        specs[name] = ToolSpec(name, function["description"], parameters)
    return tuple(specs.values())
