"""The settings of a run: a run is a function of them, and the saved ones are the ones that ran."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lopd_gym.episode import Sampling
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.learner import Needs
from lopd_gym.loop import LoopLimits

M = TypeVar("M", bound=BaseModel)

TINY = "tiny"
"""The name of the policy that ships with the package."""


class Section(BaseModel):
    """Base of all sections: frozen, and a misspelt option is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StudentSettings(Section):
    """Which weights are trained: a LoRA adapter, or all of them (``full``)."""

    kind: Literal["full", "lora"] = "lora"
    rank: int = Field(64, ge=1)
    alpha: float = 128.0


class EndpointSettings(Section):
    """Where and how a model is asked that is named ``openai:NAME``.

    Attributes:
        base_url: Address up to and including the version, like ``http://localhost:8000/v1``.
        timeout_s: Seconds for which the endpoint may be silent.
        retries: How often a request is repeated for reasons that may pass.
    """

    base_url: str | None = None
    timeout_s: float = Field(120.0, gt=0)
    retries: int = Field(5, ge=0)


class ModelSettings(Section):
    """The policy: ``source`` is ``tiny``, a folder, a .gguf file, a hub id or ``openai:NAME``."""

    source: str = TINY
    chat_format: str | None = None
    device: str = "auto"
    endpoint: EndpointSettings = EndpointSettings()
    student: StudentSettings = StudentSettings()


class EvaluationSettings(Section):
    """Held-out evaluation.

    Attributes:
        split: The split whose first tasks are played.
        tasks: Tasks in the baseline and the final evaluation.
        curve_tasks: Tasks in the evaluations during training.
        every: Training steps between those; 0 for none.
        greedy: Whether every evaluation is also played greedily.
        seed: Seeds the episodes; it is not the run's seed, so runs can be paired.
    """

    split: str = "test"
    tasks: int = Field(256, ge=1)
    curve_tasks: int = Field(128, ge=1)
    every: int = Field(5, ge=0)
    greedy: bool = True
    seed: int = 0


class RunSettings(Section):
    """Everything that a run is a function of.

    Attributes:
        env: Name and options of the environment.
        learner: Name and options of the learner, its preset included.
        rollouts: Training episodes in all, those that fill the bank included.
        bank_from: A file of experiences (``bank export``) that the bank starts with.
        bank_min_score: Score from which such an episode becomes an experience.
        episodes_per_step: Episodes that one update of the learner consumes.
        max_new_tokens: Tokens of one assistant turn.
        max_failure_rate: Share of failed episodes above which the run stops with an error.
        tracker: Where training's numbers are shown, beside ``metrics.jsonl``.
    """

    env: dict[str, Any]
    learner: dict[str, Any]
    model: ModelSettings = ModelSettings()
    seed: int = 0
    rollouts: int = Field(1_600, ge=1)
    bank_from: str | None = None
    bank_min_score: float = Field(0.8, ge=0, le=1)
    episodes_per_step: int = Field(32, ge=1)
    sampling: Sampling = Sampling()
    max_new_tokens: int = Field(4_096, ge=1)
    limits: LoopLimits = LoopLimits(concurrency=32)
    evaluation: EvaluationSettings = EvaluationSettings()
    embedder: str = "hashing"
    max_failure_rate: float = Field(0.2, ge=0, le=1)
    tracker: Literal["none", "tensorboard", "trackio", "wandb"] = "none"

    @property
    def label(self) -> str:
        """A short name for folders and titles."""
        return f"{self.env['name']}-{self.learner['name']}"


@dataclass(frozen=True, slots=True)
class Budget:
    """How a learner spends the rollouts of a run: on its bank, and on training ``steps``."""

    bank: int
    steps: int

    @classmethod
    def of(cls, settings: RunSettings, needs: Needs) -> Budget:
        """Divide a run's rollouts; what a learner without a bank saves is spent on training.

        Raises:
            UsageError: A step cannot hold whole groups of episodes, or the rollouts no step.
        """
        group, step = needs.episodes_per_task, settings.episodes_per_step
        if step % group:
            raise UsageError(
                f"'{settings.learner['name']}' plays {group} episodes of each task, so "
                f"episodes_per_step must be a multiple of {group}, found {step}."
            )
        bank = needs.bank_rollouts if needs.bank else 0
        if settings.rollouts - bank < step:
            raise UsageError(
                f"The rollouts ({settings.rollouts}) must cover those that fill the bank ({bank}) "
                f"and at least one step of {step} episodes: raise rollouts."
            )
        return cls(bank, (settings.rollouts - bank) // step)


TINY_DEFAULTS: dict[str, Any] = {
    "model": {"student": {"kind": "full"}},
    "rollouts": 672,
    "episodes_per_step": 48,
    "max_new_tokens": 48,
    "limits": {"concurrency": 64, "max_tokens": 4_096},
    "evaluation": {"every": 1},
}
"""What the shipped tiny policy wants: it is small enough for full-parameter updates, and its
turns are short."""


def validate(kind: type[M], values: Mapping[str, Any], where: str) -> M:
    """Build settings, turning the first problem into one sentence.

    Raises:
        UsageError: An unknown option (with the nearest known one) or an unfit value.
    """
    try:
        return kind.model_validate(dict(values))
    except ValidationError as err:
        problem = err.errors(include_url=False)[0]
        path = [str(p) for p in problem["loc"]]
        if problem["type"] == "extra_forbidden":
            raise unknown_name(f"option of {where}", path[-1], _options_near(kind, path)) from None
        name = f"Option '{'.'.join(path)}' of {where}" if path else where
        found = f", found {problem['input']!r}" if path else ""
        raise UsageError(
            f"{name}: {problem['msg'].removeprefix('Value error, ')}{found}."
        ) from None


def _options_near(kind: type[BaseModel], path: Sequence[str]) -> list[str]:
    for name in path[:-1]:
        annotation = kind.model_fields[name].annotation if name in kind.model_fields else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            kind = annotation
    return list(kind.model_fields)


def read_settings_file(path: Path) -> dict[str, Any]:
    """Read settings from a TOML or JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as err:
        raise UsageError(f"Cannot read the settings file {path}: {err.strerror}.") from err
    except ValueError as err:
        raise UsageError(f"{path} is not valid TOML or JSON: {err}.") from err
    if not isinstance(values, dict):
        raise UsageError(f"{path}: expected a table of settings, found {type(values).__name__}.")
    return values


def apply_overrides(values: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply ``a.b=c`` overrides in place; values are read as JSON where they are JSON."""
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name:
            raise UsageError(f"--set expects name=value, found '{override}'.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        merge(values, _nested(name.split("."), value))


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested


def merge(values: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Merge nested changes into nested values, in place."""
    for name, change in changes.items():
        old = values.get(name)
        if isinstance(old, dict) and isinstance(change, Mapping):
            merge(old, change)
        else:
            values[name] = json.loads(json.dumps(change)) if isinstance(change, dict) else change


def differences(asked: Any, saved: Any, path: str = "") -> list[str]:
    """Return the dotted names of what differs between two nested settings, sorted."""
    if isinstance(asked, dict) and isinstance(saved, dict):
        names = asked.keys() | saved.keys()
        parts = [differences(asked.get(n), saved.get(n), f"{path}.{n}".lstrip(".")) for n in names]
        return sorted(d for part in parts for d in part)
    return [] if asked == saved else [path]
