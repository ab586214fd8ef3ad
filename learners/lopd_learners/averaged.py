"""A teacher whose weights follow the student's slowly."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from lopd_gym.policy.backbone import Backbone


class AveragedTeacher:
    """The exponential moving average of the student's whole weights, in float32.

    Of an adapter its product with the base's weights is averaged, not its factors: the average of
    a product is not the product of averages.
    """

    def __init__(self, backbone: Backbone, rate: float) -> None:
        self._backbone, self._rate = backbone, rate
        model: Any = copy.deepcopy(backbone.base)
        self.model = model.to(dtype=torch.float32)

    @torch.no_grad()
    def follow(self) -> None:
        """Move towards the student: rate 0 stays, rate 1 copies it."""
        weights = self._backbone.merged_student_weights()
        for name, mine in self.model.named_parameters():
            mine.lerp_(weights[name].float(), self._rate)

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the weights, on the CPU."""
        return {name: p.cpu().clone() for name, p in self.model.named_parameters()}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` returned."""
        for name, mine in self.model.named_parameters():
            mine.copy_(state[name])
