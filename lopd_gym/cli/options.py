"""Options that several commands share, and how they become settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lopd_gym.run.settings import RunSettings

EnvOption = Annotated[str, typer.Option("--env", help="Environment, see: lopd-gym envs list.")]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder that holds the benchmark's data.")
]
ModelOption = Annotated[
    str, typer.Option("--model", help="tiny (shipped), a folder, a .gguf file or a hub id.")
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url", envvar="OPENAI_BASE_URL", help="Endpoint of a model named openai:NAME."
    ),
]
FormatOption = Annotated[
    str | None, typer.Option("--chat-format", help="How the model writes tool calls.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change one setting: a.b=value. May be repeated.", metavar="A.B=C"),
]


def env_section(name: str, data: Path | None) -> dict[str, Any]:
    """Return the settings section of an environment."""
    section: dict[str, Any] = {"name": name}
    if data is not None:
        section["data"] = str(data)
    return section


def play_settings(
    env: dict[str, Any],
    model: str,
    chat_format: str | None,
    changes: list[str] | None,
    base_url: str | None = None,
    **more: Any,
) -> RunSettings:
    """Build settings for playing with a model, without a learner."""
    from lopd_gym.run.settings import (
        TINY,
        TINY_DEFAULTS,
        RunSettings,
        apply_overrides,
        merge,
        validate,
    )

    values: dict[str, Any] = {}
    if model == TINY or Path(model, "lopd_gym.json").exists():
        merge(values, TINY_DEFAULTS)
    section: dict[str, Any] = {"source": model, "chat_format": chat_format}
    section["endpoint"] = {"base_url": base_url}
    merge(values, {"env": env, "model": section, "learner": {"name": "none"}, **more})
    apply_overrides(values, changes or [])
    settings = validate(RunSettings, values, "the settings")
    set_threads(settings.model.source)
    return settings


def set_threads(model: str) -> None:
    """Let torch use one thread for the tiny policy, unless OMP_NUM_THREADS says otherwise.

    Its tensors are so small that a second thread costs more than it brings, and on a busy machine
    it costs a hundred times more.
    """
    from lopd_gym.run.settings import TINY

    if model == TINY and "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(1)
