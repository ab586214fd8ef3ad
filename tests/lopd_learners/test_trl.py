"""The same losses as TRL's own functions, on random tensors: value and gradient.

TRL is no part of what this package needs: ``pip install 'lopd-gym[parity]'``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytest.importorskip(
    "trl.trainer.grpo_trainer",
    reason="parity with TRL needs the extra: pip install 'lopd-gym[parity]'",
    exc_type=ImportError,
)

from lopd_learners.losses import (
    forward_kl,
    jensen_shannon,
    reverse_kl,
    sampled_reverse_kl,
    with_tail,
)
from lopd_learners.policy_gradient import (
    clipped_surrogate,
    group_advantages,
    ratio,
    sampler_weights,
)
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.experimental.sdpo import loss_utils
from trl.trainer.grpo_trainer import GRPOTrainer

VOCABULARY, TOKENS, ROWS = 50, 7, 4


def logits(seed: int) -> Tensor:
    """[ROWS, TOKENS, VOCABULARY]."""
    generator = torch.Generator().manual_seed(seed)
    shape = (ROWS, TOKENS, VOCABULARY)
    return (2 * torch.randn(shape, generator=generator)).double().requires_grad_(True)


def agree(ours: Tensor, theirs: Tensor, student: Tensor) -> None:
    assert torch.allclose(ours, theirs, atol=1e-9, rtol=1e-7)
    one, other = (
        torch.autograd.grad(loss.sum(), student, retain_graph=True) for loss in (ours, theirs)
    )
    assert one[0].abs().max() > 1e-4
    assert torch.allclose(one[0], other[0], atol=1e-9, rtol=1e-6)


# -- distillation --------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
def test_the_generalised_jensen_shannon_divergence_of_gkd(weight: float) -> None:
    student, teacher = logits(0), logits(1).detach()
    ours = jensen_shannon(student.log_softmax(-1), teacher.log_softmax(-1), weight)
    theirs = GKDTrainer.generalized_jsd_loss(student, teacher, beta=weight, reduction="none")
    agree(ours, theirs.sum(-1), student)


@pytest.mark.parametrize(("weight", "divergence"), [(0.0, forward_kl), (1.0, reverse_kl)])
def test_the_two_kls_of_self_distillation(weight: float, divergence: Any) -> None:
    student, teacher = logits(2), logits(3).detach()
    theirs = loss_utils.compute_full_logit_self_distillation_loss(
        student, teacher, distillation_alpha=weight
    )
    agree(divergence(student.log_softmax(-1), teacher.log_softmax(-1)), theirs, student)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("support", [1, 20, VOCABULARY])
def test_sdpos_support_of_the_student_with_a_tail(weight: float, support: int) -> None:
    student, teacher = logits(4), logits(5).detach()
    p_log, q_log = student.log_softmax(-1), teacher.log_softmax(-1)
    ids = p_log.detach().topk(support).indices
    ours = jensen_shannon(
        with_tail(p_log.gather(-1, ids)), with_tail(q_log.gather(-1, ids)), weight
    )
    theirs = loss_utils.compute_topk_self_distillation_loss(
        student,
        teacher,
        distillation_topk=support,
        distillation_alpha=weight,
        distillation_add_tail=True,
    )
    agree(ours, theirs, student)


@pytest.mark.parametrize("cap", [0.5, 2.0])
def test_sdpos_weight_of_tokens(cap: float) -> None:
    p_log, old = (torch.randn(TOKENS, dtype=torch.float64) for _ in range(2))
    losses = torch.rand(TOKENS, dtype=torch.float64)
    ours = sampler_weights(p_log, old, [TOKENS], "token", cap) * losses
    theirs = loss_utils.apply_importance_sampling_clipping(losses, p_log, old, cap)
    assert torch.allclose(ours, theirs)


# -- GRPO ----------------------------------------------------------------------------------------


class Accelerator:
    """What `_compute_loss` asks of the one process that there is."""

    num_processes = 1

    def gather(self, values: Tensor) -> Tensor:
        return values

    def reduce(self, values: Tensor, reduction: str) -> Tensor:
        return values


def trainer(p_log: Tensor, loss_type: str, **changes: Any) -> Any:
    """Just enough of a `GRPOTrainer` for its loss, with given log-probabilities."""
    settings: dict[str, Any] = {
        "loss_type": loss_type,
        "epsilon_low": 0.2,
        "epsilon_high": 0.28,
        "beta": 0.0,
        "use_vllm": False,
        "vllm_importance_sampling_correction": True,
        "importance_sampling_level": "token",
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "aux_loss_enabled": False,
        "_entropy_bonus_enabled": False,
        "max_completion_length": 32,
        "current_gradient_accumulation_steps": 1,
        "model": SimpleNamespace(training=True),
        "accelerator": Accelerator(),
        "args": SimpleNamespace(delta=None, steps_per_generation=1, use_bias_correction_kl=False),
        "_metrics": {"train": defaultdict(list)},
        "_get_per_token_logps_and_entropies": lambda *a, **k: (
            p_log,
            torch.zeros_like(p_log),
            None,
        ),
        **changes,
    }
    return SimpleNamespace(**settings)


class Rollouts:
    """Random numbers of a step, some tokens of which a tool wrote."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        shape, real = (ROWS, TOKENS), {"dtype": torch.float64}
        self.p_log = (-torch.rand(shape, **real)).requires_grad_(True)
        self.old_log = self.p_log.detach() + 0.4 * torch.randn(shape, **real)
        self.base_log = self.p_log.detach() + 0.4 * torch.randn(shape, **real)
        self.advantages = torch.randn(ROWS, **real)
        self.completion = torch.arange(TOKENS) < torch.tensor([7, 5, 6, 3])[:, None]
        self.tool = torch.rand(shape) > 0.3
        self.tool[:, 0] = True
        self.mask = self.completion & self.tool

    def theirs(self, loss_type: str, weights: Tensor | None = None, **changes: Any) -> Tensor:
        empty = torch.zeros(ROWS, 0, dtype=torch.long)
        inputs = {
            "prompt_ids": empty,
            "prompt_mask": empty,
            "completion_ids": torch.zeros(ROWS, TOKENS, dtype=torch.long),
            "completion_mask": self.completion.long(),
            "tool_mask": self.tool.long(),
            "advantages": self.advantages,
            "old_per_token_logps": self.old_log,
            "ref_per_token_logps": self.base_log,
            "num_items_in_batch": self.mask.sum(),
            "importance_sampling_ratio": weights,
        }
        made = trainer(self.p_log, loss_type, use_vllm=weights is not None, **changes)
        loss: Tensor = GRPOTrainer._compute_loss(made, None, inputs)
        return loss

    def token_losses(self) -> Tensor:
        ratios = ratio(self.p_log, self.old_log)
        return clipped_surrogate(ratios, self.advantages[:, None].expand_as(ratios), 0.2, 0.28)

    def reduced(self, losses: Tensor, loss_type: str) -> Tensor:
        losses = losses * self.mask
        if loss_type == "grpo":
            return (losses.sum(-1) / self.mask.sum(-1)).mean()
        return losses.sum() / {"dapo": self.mask.sum(), "dr_grpo": ROWS * 32}[loss_type]


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
def test_the_clipped_surrogate_of_grpo(loss_type: str) -> None:
    rollouts = Rollouts()
    ours = rollouts.reduced(rollouts.token_losses(), loss_type)
    agree(ours, rollouts.theirs(loss_type), rollouts.p_log)


def test_the_kl_to_the_reference_model() -> None:
    rollouts = Rollouts()
    kl = sampled_reverse_kl(rollouts.p_log, rollouts.base_log, "k3")
    ours = rollouts.reduced(rollouts.token_losses() + 0.1 * kl, "dapo")
    agree(ours, rollouts.theirs("dapo", beta=0.1), rollouts.p_log)


def test_weights_for_a_different_sampler_are_applied_alike() -> None:
    rollouts = Rollouts()
    weights = torch.rand(ROWS, TOKENS, dtype=torch.float64)
    ours = rollouts.reduced(weights * rollouts.token_losses(), "dapo")
    agree(ours, rollouts.theirs("dapo", weights), rollouts.p_log)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages(scale: str) -> None:
    """TRL computes them within its rollouts; these are its lines, with its own `nanstd`."""
    from trl.trainer.utils import nanstd

    torch.manual_seed(0)
    rewards = torch.rand(3, 4)
    spreads = {
        "group": nanstd(rewards, dim=1)[:, None] + 1e-4,
        "batch": nanstd(rewards) + 1e-4,
        "none": torch.ones(()),
    }
    theirs = (rewards - rewards.mean(1, keepdim=True)) / spreads[scale]
    groups = [n // 4 for n in range(12)]
    ours = group_advantages(rewards.flatten(), groups, scale, eps=1e-4)
    assert torch.allclose(ours, theirs.flatten(), atol=1e-6)
