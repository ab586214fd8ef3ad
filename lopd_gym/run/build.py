"""Build what a run needs from its settings: environments, learner, policies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import UsageError, unknown_name
from lopd_gym.registry import ENVS, LEARNERS, load
from lopd_gym.run.settings import Budget, RunSettings, validate
from lopd_gym.run.tracking import check_tracker

if TYPE_CHECKING:
    from lopd_gym.episode import Sampling
    from lopd_gym.learner import Learner, Needs
    from lopd_gym.policy.backbone import Backbone
    from lopd_gym.policy.base import Policy
    from lopd_gym.policy.model_policy import ModelPolicy, Weights


def env_maker(section: Mapping[str, Any], split: str) -> Callable[[], ToolEnv]:
    """Return a function that makes the environment which a settings section names.

    Raises:
        UsageError: No such environment, option or split.
    """
    options = {k: v for k, v in section.items() if k != "name" and v is not None}
    factory = load(ENVS, section["name"])
    known = [p for p in inspect.signature(factory).parameters if p != "split"]
    for name in options:
        if name not in known:
            raise unknown_name(f"option of environment '{section['name']}'", name, known)
    if isinstance(options.get("rules"), Mapping):
        options["rules"] = validate(EpisodeRules, options["rules"], "the episode rules")

    def make() -> ToolEnv:
        env: ToolEnv = factory(split=split, **options)
        return env

    return make


def checked_env(section: Mapping[str, Any], split: str) -> ToolEnv:
    """Make one environment and check that it has the split."""
    env = env_maker(section, split)()
    if split not in env.splits():
        raise unknown_name(f"split of '{env.label}'", split, env.splits())
    return env


def checked_preset(name: str, preset: str) -> dict[str, Any]:
    """Return all options of a learner's preset, as plain JSON values.

    Raises:
        UsageError: No such learner or preset.
    """
    learner: type[Learner] = load(LEARNERS, name)
    if preset not in learner.presets:
        raise unknown_name(f"preset of learner '{name}'", preset, learner.presets)
    plain: dict[str, Any] = learner.config_type(**learner.presets[preset]).model_dump(mode="json")
    return plain


def learner_section(name: str, preset: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve a learner's preset and options into its full, validated section.

    Raises:
        UsageError: No such learner, preset or option, or an unfit value.
    """
    values = {**checked_preset(name, preset), **options}
    learner: type[Learner] = load(LEARNERS, name)
    config = validate(learner.config_type, values, f"learner '{name}'")
    return {"name": name, "preset": preset, **config.model_dump(mode="json")}


def learner_type(section: Mapping[str, Any]) -> tuple[type[Learner], Any]:
    """Return the learner's class and its config from a resolved section."""
    learner: type[Learner] = load(LEARNERS, section["name"])
    values = {k: v for k, v in section.items() if k not in ("name", "preset")}
    return learner, validate(learner.config_type, values, f"learner '{section['name']}'")


def learner_needs(section: Mapping[str, Any]) -> Needs:
    """Return what a learner with these options asks of a run."""
    kind, config = learner_type(section)
    return kind.needs(config)


def check_run(settings: RunSettings) -> None:
    """Make sure that a run can begin, before anything is written or loaded.

    Raises:
        UsageError: The environment or its split does not exist, the budget cannot be divided, or
            the tracker is not installed.
    """
    check_tracker(settings)
    checked_env(settings.env, settings.evaluation.split).close()
    Budget.of(settings, learner_needs(settings.learner))


def load_backbone(settings: RunSettings) -> Backbone:
    """Load the model with the student that the settings ask for.

    Raises:
        UsageError: A model behind an endpoint, which has no weights here.
    """
    from lopd_gym.endpoint import endpoint_model

    if endpoint_model(settings.model.source) is not None:
        raise UsageError(
            f"'{settings.model.source}' is behind an endpoint and can only be evaluated: name a "
            "folder, a .gguf file or a hub id."
        )
    from lopd_gym.policy.backbone import Backbone, StudentConfig

    student = StudentConfig(**settings.model.student.model_dump())
    return Backbone.load(
        settings.model.source,
        student=student,
        device=settings.model.device,
        chat_format=settings.model.chat_format,
    )


def model_policy(
    backbone: Backbone, weights: Weights, sampling: Sampling, settings: RunSettings
) -> ModelPolicy:
    """Make the policy that plays with the student's or the base weights."""
    from lopd_gym.policy.model_policy import ModelPolicy

    if sampling.temperature < 0:
        raise UsageError(f"temperature must be at least 0, found {sampling.temperature}.")
    return ModelPolicy(
        backbone,
        weights=weights,
        sampling=sampling,
        max_new_tokens=settings.max_new_tokens,
        max_context_tokens=settings.limits.max_tokens,
    )


def player(settings: RunSettings) -> Callable[[Sampling], Policy]:
    """Return what makes the policies that play with the settings' model as it is.

    Raises:
        UsageError: An endpoint's model without the endpoint's address.
    """
    from lopd_gym.endpoint import Endpoint, endpoint_model

    name = endpoint_model(settings.model.source)
    if name is None:
        backbone = load_backbone(settings)
        return lambda sampling: model_policy(backbone, "base", sampling, settings)
    from lopd_gym.policy.openai import OpenAIPolicy

    asked = settings.model.endpoint
    endpoint = Endpoint(name, asked.base_url or "", asked.timeout_s, asked.retries)
    return lambda sampling: OpenAIPolicy(endpoint, sampling, settings.max_new_tokens)
