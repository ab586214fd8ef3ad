"""One bank for all tests of learners, which nothing writes to, and what most of them need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lopd_gym.bank import Bank
from lopd_gym.policy.backbone import Backbone
from tests.lopd_learners.lopd.setting import make_bank
from tests.lopd_learners.setting import Make, make


@pytest.fixture(scope="session")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with make_bank(tmp_path_factory.mktemp("bank")) as bank:
        yield bank


@pytest.fixture
def build(bank: Bank, tmp_path: Path) -> Make:
    def build(name: str, backbone: Backbone | None = None, **options: Any) -> Any:
        return make(name, bank, tmp_path, backbone, **options)

    return build


@pytest.fixture
def gradients(monkeypatch: Any) -> list[list[Tensor]]:
    """What each optimiser step was given, before it was clipped."""
    seen: list[list[Tensor]] = []
    clip = torch.nn.utils.clip_grad_norm_

    def look(parameters: list[Any], max_norm: float) -> Tensor:
        seen.append([torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in parameters])
        return clip(parameters, max_norm)

    monkeypatch.setattr("torch.nn.utils.clip_grad_norm_", look)
    return seen
