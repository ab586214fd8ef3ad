"""EnvScaler: tool environments that come as class sources, with tasks that are verified by checks.

Read `corpus.py` (the data), `splits.py`, `release.py` (the environment), `player.py` (the host's
side of the worker process) and `worker.py` (what runs there). `starter/` is a small suite of the
same shape, written for this project, for where no release is present.
"""

from __future__ import annotations

from pathlib import Path

from lopd_envs.envscaler.corpus import load_corpus
from lopd_envs.envscaler.dataset import DATASET
from lopd_envs.envscaler.release import ReleaseEnv
from lopd_envs.envscaler.rules import PRESETS, preset_rules
from lopd_envs.envscaler.starter.env import StarterEnv
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import UsageError
from lopd_gym.isolation import STRONGEST, open_sandbox
from lopd_gym.tasks import TRAIN_SPLIT

__all__ = ["PRESETS", "ReleaseEnv", "StarterEnv", "make_envscaler"]


def make_envscaler(
    split: str = TRAIN_SPLIT,
    data: Path | str | None = None,
    rules: EpisodeRules | None = None,
    preset: str | None = None,
    sandbox: str = STRONGEST,
) -> ToolEnv:
    """EnvScaler's verified business systems; a starter suite where the release is absent.

    Args:
        split: Name of a split.
        data: Folder with the release or a part of it; default: the pulled release, if present.
        rules: Rules of an episode.
        preset: Rules by name instead: ``upstream`` or ``lopd`` (the default for the release).
        sandbox: Isolation backend that plays the release's class sources; ``auto`` is the
            strongest that works here. ``process`` does not isolate, and is never chosen by itself.
            The starter suite is this project's own code and needs none.

    Raises:
        UsageError: No such split, preset or sandbox, or both rules and a preset.
        DataError: The folder does not hold the release, whole and as it should be.
        InfrastructureError: The sandbox does not work here.
    """
    if rules is not None and preset is not None:
        raise UsageError("Expected rules or a preset of them, found both: give one.")
    if preset is not None:
        rules = preset_rules(preset)
    if data is None and not DATASET.present:
        return StarterEnv(split, rules)
    corpus = load_corpus(DATASET.folder if data is None else Path(data).expanduser())
    return ReleaseEnv(corpus, open_sandbox(sandbox), split, rules)
