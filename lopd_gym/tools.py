"""Tools: typed, documented methods that a policy may call.

Mark a method with `tool`; its JSON schema comes from signature and docstring, and arguments are
validated with pydantic before the method runs. Wrong arguments become a `ToolResult` that tells
the model what was wrong; they are never raised.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from lopd_gym.errors import InfrastructureError
from lopd_gym.messages import ToolSpec
from lopd_gym.tasks import Termination

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the policy reads after a call.

    ``refused`` marks a call that was not executed (unknown tool, wrong arguments); ``raised``
    carries the exception text of a tool that was executed and raised. ``lost`` marks a call that
    took the episode's state along (it never returned): the episode ends for that reason, with
    score 0, and there is nothing left to verify.
    """

    content: str
    refused: bool = False
    raised: str | None = None
    lost: Termination | None = None


class Toolset(Protocol):
    """The tools of one open episode."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools that may be called, in the order in which they are shown."""
        ...

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Execute one call; raises only `InfrastructureError`."""
        ...


def tool(method: F) -> F:
    """Mark a method as a tool. It needs type hints and a Google-style docstring."""
    method.__lopd_tool__ = True  # type: ignore[attr-defined]
    return method


@dataclass(frozen=True, slots=True)
class _ToolDefinition:
    spec: ToolSpec
    arguments: type[BaseModel]


class MethodTools:
    """A `Toolset` made of the methods of one object that are marked with `tool`."""

    def __init__(self, owner: object) -> None:
        self._owner = owner
        self._tools = _definitions(type(owner))  # type: ignore[arg-type]

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools in the order of their definition in the class."""
        return tuple(t.spec for t in self._tools.values())

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Validate the arguments and run the method; its value is rendered as compact JSON.

        Raises:
            InfrastructureError: The method raised it: the machinery broke, not the call.
        """
        definition = self._tools.get(name)
        if definition is None:
            return ToolResult(error_text(f"unknown tool {name!r}"), refused=True)
        try:
            valid = definition.arguments.model_validate(dict(arguments))
        except ValidationError as err:
            return ToolResult(error_text(_first_problem(err)), refused=True)
        values = {field: getattr(valid, field) for field in definition.arguments.model_fields}
        try:
            value = getattr(self._owner, name)(**values)
        except InfrastructureError:
            raise
        except Exception as err:  # the tool's own fault is data, not a crash of the run
            return ToolResult(error_text(f"{type(err).__name__}: {err}"), raised=repr(err))
        return ToolResult(value if isinstance(value, str) else compact_json(value))


def compact_json(value: Any) -> str:
    """Render a JSON value without spaces; anything else falls back to its ``str``."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def error_text(reason: str) -> str:
    """Render an error observation."""
    return compact_json({"error": reason})


def _first_problem(err: ValidationError) -> str:
    problem = err.errors(include_url=False)[0]
    where = ".".join(str(p) for p in problem["loc"]) or "arguments"
    return f"argument {where}: {problem['msg']}"


@cache
def _definitions(owner: type) -> dict[str, _ToolDefinition]:
    names = [n for c in reversed(owner.__mro__) for n in vars(c)]
    methods = {n: getattr(owner, n) for n in dict.fromkeys(names)}
    return {n: _define(m) for n, m in methods.items() if getattr(m, "__lopd_tool__", False)}


def _define(method: Callable[..., Any]) -> _ToolDefinition:
    name = method.__name__
    doc = docstring_parser.parse(inspect.getdoc(method) or "")
    if not doc.short_description:
        raise TypeError(f"Tool '{name}' has no docstring: the policy reads it, so write one.")
    described = {p.arg_name: p.description for p in doc.params}
    signature = inspect.signature(method, eval_str=True)
    fields: dict[str, Any] = {}
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.annotation is inspect.Parameter.empty:
            raise TypeError(f"Parameter '{parameter.name}' of tool '{name}' has no type hint.")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        about = Field(default, description=described.get(parameter.name))
        fields[parameter.name] = (parameter.annotation, about)
    model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    return _ToolDefinition(ToolSpec(name, _description(doc), _schema(model)), model)


def _description(doc: docstring_parser.Docstring) -> str:
    parts = [doc.short_description, doc.long_description]
    return "\n\n".join(p for p in parts if p)


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    for entry in schema.get("properties", {}).values():
        entry.pop("title", None)
    return {
        "type": "object",
        "properties": schema.get("properties", {}),
        "required": schema.get("required", []),
    }
