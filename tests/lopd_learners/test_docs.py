"""The learner that docs/learners.md shows works as it stands there."""

from __future__ import annotations

import importlib.util
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from lopd_gym.learner import LearnerContext
from tests.conftest import ROOT
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.setting import group, log_probs, same, state


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The page's learner."""
    page = (ROOT / "docs" / "learners.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.S)
    assert code is not None
    file = tmp_path_factory.mktemp("page") / "reinforce.py"
    file.write_text(code.group(1), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("reinforce", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Reinforce


def make(shown: Any, folder: Path, **options: Any) -> Any:
    config = shown.config_type(**{**shown.presets["tiny"], **options})
    return shown(config, LearnerContext(make_backbone(kind="full"), None, 0, folder))


def test_the_pages_learner_prefers_what_went_well(shown: Any, tmp_path: Path) -> None:
    learner = make(shown, tmp_path)
    backbone = learner.context.backbone
    episodes = group(backbone, 0, (1.0, 0.0, 0.25, 1.0, None))
    before = [log_probs(backbone.student, e).mean().item() for e in episodes]
    assert learner.update(episodes)["grad_norm"] > 0
    after = [log_probs(backbone.student, e).mean().item() for e in episodes]
    gains = [new - old for old, new in zip(before, after, strict=True)]
    assert min(gains[0], gains[3]) > max(gains[1], gains[2])
    assert learner.update([]) == {"skipped": 1.0}
    assert shown.needs(learner.config).episodes_per_task == 4


def test_the_pages_learner_does_what_the_page_asks_for(shown: Any, tmp_path: Path) -> None:
    whole, parts = make(shown, tmp_path), make(shown, tmp_path, micro_batch_tokens=1)
    episodes = group(whole.context.backbone, 0, (1.0, 0.0, 0.25))
    norms = [learner.update(episodes)["grad_norm"] for learner in (whole, parts)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    resumed = make(shown, tmp_path)
    resumed.context.backbone.load_student_state(state(whole))
    resumed.load_state_dict(deepcopy(whole.state_dict()))
    assert resumed.update(episodes) == whole.update(episodes)
    assert same(state(resumed), state(whole))
