"""Command-line options become the settings of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lopd_gym.cli.options import env_section
from lopd_gym.errors import UsageError


def named_settings(
    env: str | None,
    learner: str | None,
    model: str | None,
    data: Path | None,
    rollouts: int | None,
    seed: int | None,
    preset: str | None,
    chat_format: str | None,
) -> dict[str, Any]:
    """Return the settings that options of their own were given for.

    Raises:
        UsageError: ``data`` comes without ``env``.
    """
    named: dict[str, Any] = {}
    if data is not None and env is None:
        raise UsageError("--data is the data of an environment: name it too, with --env NAME.")
    if env is not None:
        named["env"] = env_section(env, data)
    if learner is not None:
        named["learner"] = {"name": learner}
    if preset is not None:
        named.setdefault("learner", {})["preset"] = preset
    if model is not None:
        named["model"] = {"source": model}
    if chat_format is not None:
        named.setdefault("model", {})["chat_format"] = chat_format
    if rollouts is not None:
        named["rollouts"] = rollouts
    if seed is not None:
        named["seed"] = seed
    return named


def with_defaults(from_file: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Merge defaults, the settings file and the named options, weakest first."""
    from lopd_gym.run.settings import TINY, TINY_DEFAULTS, merge

    asked: dict[str, Any] = {"model": {"source": TINY}}
    merge(asked, from_file)
    merge(asked, named)
    model = asked["model"]
    values: dict[str, Any] = {}
    if isinstance(model, dict) and model.get("source") == TINY:
        merge(values, TINY_DEFAULTS)
    merge(values, asked)
    return values


def resolve(values: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """Apply overrides and resolve the learner's preset, so that nothing is left implicit."""
    from lopd_gym.run.build import learner_section
    from lopd_gym.run.settings import TINY, apply_overrides

    apply_overrides(values, changes)
    section = values.get("learner")
    if not isinstance(section, dict) or "name" not in section:
        raise UsageError("No learner is named: pass --learner NAME.")
    if not isinstance(values.get("env"), dict) or "name" not in values["env"]:
        raise UsageError("No environment is named: pass --env NAME.")
    model = values.get("model")
    default = TINY if isinstance(model, dict) and model.get("source") == TINY else "paper"
    options = {k: v for k, v in section.items() if k not in ("name", "preset")}
    values["learner"] = learner_section(section["name"], section.get("preset", default), options)
    return values
