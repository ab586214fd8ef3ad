"""Which runs a comparison consists of: every learner with every seed, all else equal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from lopd_gym.compare.collect import learner_label
from lopd_gym.errors import UsageError
from lopd_gym.run.folder import RunFolder, read_json, write_json
from lopd_gym.run.settings import RunSettings, Section, validate

SETTINGS_FILE = "comparison-settings.json"


class CompareSettings(Section):
    """Everything that a comparison is a function of.

    Attributes:
        learners: Resolved learner sections; the first is the reference.
        seeds: Training seeds, the same for every learner.
        run: The settings of a run, but for learner and seed.
    """

    learners: tuple[dict[str, Any], ...] = Field(min_length=2)
    seeds: tuple[int, ...] = Field(min_length=1)
    run: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One learner with one seed, and where its run is kept."""

    label: str
    settings: RunSettings
    folder: Path

    @property
    def title(self) -> str:
        """What it is, for people."""
        return f"{self.label}, seed {self.settings.seed}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A comparison in its folder."""

    folder: Path
    settings: CompareSettings

    @classmethod
    def create(cls, settings: CompareSettings, folder: Path) -> Plan:
        """Make the folder of a new comparison.

        Raises:
            UsageError: It holds a comparison already or cannot be written, or a learner comes
                twice.
        """
        labels = [learner_label(section) for section in settings.learners]
        if len(set(labels)) < len(labels):
            raise UsageError(f"Every learner may come once, found {', '.join(labels)}.")
        if (folder / SETTINGS_FILE).exists():
            raise UsageError(
                f"{folder} already holds a comparison: continue it with lopd-gym compare --resume "
                f"{folder}."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / SETTINGS_FILE, settings.model_dump(mode="json"))
        except OSError as err:
            raise UsageError(f"Cannot write the folder {folder}: {err.strerror}.") from err
        return cls(folder, settings)

    @classmethod
    def existing(cls, folder: Path) -> Plan:
        """Open the folder of an earlier comparison."""
        path = folder / SETTINGS_FILE
        if not path.exists():
            raise UsageError(f"{folder} holds no comparison: there is no {SETTINGS_FILE} in it.")
        return cls(folder, validate(CompareSettings, read_json(path), str(path)))

    def runs(self) -> Iterator[PlannedRun]:
        """All runs, seed by seed, so that a first comparison is there early."""
        for seed in self.settings.seeds:
            for section in self.settings.learners:
                values = {**self.settings.run, "learner": section, "seed": seed}
                label = learner_label(section)
                name = re.sub(r"[^A-Za-z0-9.=-]+", "-", f"{label}-seed-{seed}")
                settings = validate(RunSettings, values, "a run")
                yield PlannedRun(label, settings, self.folder / name)


def prepare(run: PlannedRun) -> RunFolder:
    """Make a run's folder where there is none yet."""
    if (run.folder / "settings.json").exists():
        return RunFolder(run.folder)
    return RunFolder.create(run.settings, run.folder.parent, run.folder)
