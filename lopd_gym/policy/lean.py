"""A lean decoder for the Llama and Qwen families, on preallocated caches.

RMSNorm, rotary positions, grouped-query attention, optional query and key norms, SwiGLU. Small
models are bound by the number of operations, not by their size, so projections that read the same
input are fused, only running rows are computed, and adapters are merged into the weights. Whatever
it cannot run, `lopd_gym.policy.general` can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lopd_gym.policy.backbone import Backbone, Weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lopd_gym.policy.decoder import Chunk

_FAMILIES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_STATIC_ROPE = ("default", "linear", "llama3")
_FIRST_LENGTH = 256


def lean_fits(model: PreTrainedModel) -> bool:
    """Whether the lean decoder can run this model."""
    config = model.config
    layer_types = getattr(config, "layer_types", None) or ["full_attention"]
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        type(model).__name__ in _FAMILIES
        and not getattr(model, "is_quantized", False)
        and set(layer_types) == {"full_attention"}
        and rope.get("rope_type", "default") in _STATIC_ROPE
        and rope.get("partial_rotary_factor", 1) == 1
        and config.hidden_act == "silu"
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one block; the projections of queries, keys and values are stacked."""

    qkv: Tensor
    qkv_bias: Tensor | None
    head_norm: Tensor | None
    """[query heads + key heads, head size]"""
    out: Tensor
    out_bias: Tensor | None
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None
    norm_1: Tensor
    norm_2: Tensor


class LeanDecoder:
    """A `Decoder` with its own copy of the projections' weights."""

    def __init__(self, backbone: Backbone, weights: Weights) -> None:
        self._backbone = backbone
        self._which = weights
        config: Any = backbone.base.config
        self._eps: float = config.rms_norm_eps
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = config.num_key_value_heads
        self._head_size: int = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self._layers: list[_Layer] = []
        self._cos = self._sin = torch.empty(0, self._head_size)
        self.clear()

    def refresh(self) -> None:
        """Merge and fuse the newest weights."""
        weights = self._backbone.weights(self._which)
        dtype = self._backbone.base.dtype
        count = self._backbone.base.config.num_hidden_layers
        self._layers = [
            self._fuse({n[len(p) :]: t.to(dtype) for n, t in weights.items() if n.startswith(p)})
            for p in (f"model.layers.{index}." for index in range(count))
        ]
        self._embedding = weights["model.embed_tokens.weight"].to(dtype)
        self._norm = weights["model.norm.weight"].to(dtype)
        head = weights.get("lm_head.weight")
        self._head = self._embedding if head is None else head.to(dtype)

    def _fuse(self, weights: dict[str, Tensor]) -> _Layer:
        qkv = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        gate_up = ("mlp.gate_proj", "mlp.up_proj")
        head_norm = None
        if "self_attn.q_norm.weight" in weights:
            norms = [weights["self_attn.q_norm.weight"]] * self._heads
            norms += [weights["self_attn.k_norm.weight"]] * self._kv_heads
            head_norm = torch.stack(norms)
        return _Layer(
            qkv=torch.cat([weights[f"{name}.weight"] for name in qkv]),
            qkv_bias=_biases(weights, qkv),
            head_norm=head_norm,
            out=weights["self_attn.o_proj.weight"],
            out_bias=weights.get("self_attn.o_proj.bias"),
            gate_up=torch.cat([weights[f"{name}.weight"] for name in gate_up]),
            gate_up_bias=_biases(weights, gate_up),
            down=weights["mlp.down_proj.weight"],
            down_bias=weights.get("mlp.down_proj.bias"),
            norm_1=weights["input_layernorm.weight"],
            norm_2=weights["post_attention_layernorm.weight"],
        )

    def clear(self) -> None:
        """Forget all rows and free the cache."""
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings of ids."""
        return F.embedding(ids, self._embedding)

    def prefill(self, chunk: Chunk) -> None:
        """Put new tokens into the cache."""
        self._forward(chunk)

    def decode(self, chunk: Chunk) -> Tensor:
        """Run one new token per row and return the logits [B, V] that follow it."""
        hidden = self._forward(chunk)[:, -1]
        return F.linear(F.rms_norm(hidden, hidden.shape[-1:], self._norm, self._eps), self._head)

    def _forward(self, chunk: Chunk) -> Tensor:
        x = chunk.embeddings  # [B, n, hidden]
        batch, width, _ = x.shape
        end = max(chunk.starts) + width
        self._reserve(chunk.rows[-1] + 1, end)
        row_index = torch.tensor(chunk.rows, device=x.device)[:, None]
        starts = torch.tensor(chunk.starts, device=x.device)[:, None]
        positions = starts + torch.arange(width, device=x.device)  # [B, n]
        cos, sin = self._cos[positions][:, :, None], self._sin[positions][:, :, None]
        columns = torch.arange(end, device=x.device)
        visible = columns <= positions[:, :, None]  # [B, n, T]
        groups = self._heads // self._kv_heads
        # The query heads that share a key head are folded into the query length.
        mask = torch.zeros_like(visible, dtype=x.dtype).masked_fill_(~visible, -torch.inf)
        mask = mask[:, None] if width == 1 else mask[:, None].repeat(1, 1, groups, 1)
        first, last = chunk.rows[0], chunk.rows[-1]
        # Neighbouring rows are read in place; others have to be copied together.
        together = last - first + 1 == batch
        rows: slice | Tensor = slice(first, last + 1) if together else row_index[:, 0]
        for index, layer in enumerate(self._layers):
            qk, value = self._project(layer, x, cos, sin)
            query = qk[:, :, : self._heads].view(batch, width, self._kv_heads, groups, -1)
            query = query.permute(0, 2, 3, 1, 4).reshape(batch, self._kv_heads, groups * width, -1)
            keys, values = self._keys[index], self._values[index]
            where = (row_index, slice(None), positions)
            keys[where] = qk[:, :, self._heads :]
            values[where] = value
            attended = F.scaled_dot_product_attention(
                query, keys[rows, :, :end], values[rows, :, :end], attn_mask=mask
            )
            attended = attended.view(batch, self._kv_heads, groups, width, -1)
            attended = attended.permute(0, 3, 1, 2, 4).reshape(batch, width, -1)
            x = x + F.linear(attended, layer.out, layer.out_bias)
            x = x + self._feed_forward(layer, x)
        return x

    def _project(self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Return rotated queries and keys, and values: [B, n, heads, head size] each."""
        hidden = F.rms_norm(x, x.shape[-1:], layer.norm_1, self._eps)
        qkv = F.linear(hidden, layer.qkv, layer.qkv_bias)
        qkv = qkv.view(*x.shape[:2], self._heads + 2 * self._kv_heads, self._head_size)
        qk, value = torch.split(qkv, [self._heads + self._kv_heads, self._kv_heads], dim=2)
        if layer.head_norm is not None:
            qk = F.rms_norm(qk, (self._head_size,), None, self._eps) * layer.head_norm
        rotated = torch.roll(qk, self._head_size // 2, dims=-1)
        return torch.addcmul(qk * cos, rotated, sin), value

    def _feed_forward(self, layer: _Layer, x: Tensor) -> Tensor:
        hidden = F.rms_norm(x, x.shape[-1:], layer.norm_2, self._eps)
        gate, up = F.linear(hidden, layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, layer.down, layer.down_bias)

    def _reserve(self, rows: int, length: int) -> None:
        """Let the cache and the table of angles hold ``rows`` x ``length``, at least doubling."""
        have_rows, have_length = (
            (self._keys[0].shape[0], self._keys[0].shape[2]) if self._keys else (0, 0)
        )
        if rows > have_rows or length > have_length:
            new_rows = have_rows if rows <= have_rows else max(rows, 2 * have_rows)
            new_length = max(have_length, _FIRST_LENGTH)
            while new_length < length:
                new_length *= 2
            shape = (new_rows, self._kv_heads, new_length, self._head_size)
            count = len(self._layers)
            old = [*self._keys, *self._values]
            new = [self._embedding.new_zeros(shape) for _ in range(2 * count)]
            for source, target in zip(old, new, strict=False):
                target[:have_rows, :, :have_length] = source
            self._keys, self._values = new[:count], new[count:]
        if len(self._cos) < length:
            self._cos, self._sin = self._angles(max(length, 2 * len(self._cos)))

    def _angles(self, length: int) -> tuple[Tensor, Tensor]:
        """Return cosines and sines [length, head size]; the sines carry the rotation's sign."""
        rotary: Any = self._backbone.base.model.rotary_emb
        positions = torch.arange(length, device=self._embedding.device)[None]
        cos, sin = rotary(self._embedding[:1], positions)
        sin = sin[0].clone()
        sin[:, : self._head_size // 2] *= -1
        return cos[0], sin


def _biases(weights: dict[str, Tensor], names: tuple[str, ...]) -> Tensor | None:
    """Return the biases of fused projections, None where they have none."""
    biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
    return torch.cat(biases) if biases else None
