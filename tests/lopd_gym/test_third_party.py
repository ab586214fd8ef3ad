"""An environment is one file and a learner one folder, also in somebody else's package.

The environment is the one that docs/environments.md shows, so the page is tested too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LEARNER = '''
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from lopd_gym.episode import Episode
from lopd_gym.learner import Learner
from pydantic import BaseModel


class Config(BaseModel):
    scale: float = 1.0


class Shrink(Learner):
    """Scales the weights: enough to see that updates reach the sampler and the export."""

    name = "shrink"
    summary = "Scales all weights."
    paper = "none"
    config_type = Config
    presets: ClassVar[dict[str, dict[str, Any]]] = {"tiny": {}, "paper": {}}

    def update(self, episodes: Sequence[Episode]) -> dict[str, float]:
        with torch.no_grad():
            for weight in self.context.backbone.student_parameters():
                weight.mul_(self.config.scale)
        self.context.backbone.mark_updated()
        return {"episodes": float(len(episodes))}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that is not ours, importable and with entry points of its own."""
    page = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)
    assert code is not None
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("")
    (tmp_path / "my_package" / "thermostat.py").write_text(code.group(1))
    (tmp_path / "my_package" / "shrink.py").write_text(LEARNER)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[lopd_gym.envs]\nthermostat = my_package.thermostat:Thermostat\n"
        "[lopd_gym.learners]\nshrink = my_package.shrink:Shrink\n"
    )
    return tmp_path


def lopd_gym(package: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "lopd_gym.cli.main", *arguments],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_third_partys_environment_is_found_shown_and_played(package: Path) -> None:
    assert "thermostat" in lopd_gym(package, "envs", "list")
    shown = lopd_gym(package, "envs", "show", "thermostat")
    assert "split test: 3 tasks" in shown
    assert "set_temperature(room, degrees)" in shown
    played = lopd_gym(package, "eval", "--env", "thermostat", "--script", "nothing")
    assert "0.00" in played


def test_a_third_partys_learner_trains_and_its_student_comes_out(package: Path) -> None:
    assert "Scales all weights." in lopd_gym(package, "learners", "list")
    arguments = ("run", "--env", "thermostat", "--learner", "shrink", "--out", "one")
    small = ("rollouts=8", "episodes_per_step=4", "evaluation.tasks=3")
    changes = [part for change in small for part in ("--set", change)]
    said = lopd_gym(package, *arguments, *changes, "--set", "learner.scale=0.5")
    assert "student - base, greedy" in said
    from safetensors.numpy import load_file

    before = load_file(ROOT / "lopd_gym" / "policy" / "tiny" / "model.safetensors")
    after = load_file(package / "one" / "student" / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    assert abs(after[name] - before[name] * 0.25).max() < 1e-6
