"""LoRA adapters on a model whose weights are shared with others.

The layers are peft's; here is only what keeps the adapter in float32, its start reproducible and
the shared weights untouched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def add_lora(model: PreTrainedModel, *, rank: int, alpha: float, seed: int) -> list[nn.Parameter]:
    """Inject an adapter into a model in place and return its parameters.

    The adapter sits on all seven projections of every block (on all linear layers where a model
    has none of that name), in float32, without dropout; its output is 0 at the start.
    """
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    targets = [name for name in PROJECTIONS if name in names]
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type]
        lora_dropout=0.0,
        bias="none",
        target_modules=targets or "all-linear",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)
    adapter = [p for p in model.parameters() if p.requires_grad]
    for parameter in adapter:
        parameter.data = parameter.data.float()
    return adapter


def merged_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights of the adapted layers with their adapters added.

    Names are those of the model without adapters; sums are taken in float32.
    """
    merged = {}
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLayer):
            adapted: Any = layer
            weight: torch.Tensor = adapted.get_base_layer().weight
            total = weight.float()
            for adapter in adapted.active_adapters:
                total = total + adapted.get_delta_weight(adapter)
            merged[f"{name}.weight"] = total.to(weight.dtype)
    return merged
