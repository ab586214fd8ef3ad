"""LOPD's composer: it reads solved traces and writes them down as a few latent vectors.

An encoder (the frozen backbone with its own LoRA adapter) reads one trace at a time; a compressor
turns its hidden states into K vectors of embedding size, which stand in the teacher's prompt.
Follows the paper's A.1 and its released code: one block, applied several times with the same
weights. Everything here that is trained is float32.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lopd_gym.bank import Experience
from lopd_gym.bank.trace import item_text
from lopd_gym.errors import DataError, UsageError
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.loading import find_source
from lopd_gym.policy.lora import add_lora
from lopd_learners.forward import recomputed_blocks
from lopd_learners.lopd.config import LOPDConfig

WEIGHTS_FILE, CONFIG_FILE = "composer.safetensors", "composer.json"
_ENCODED_TOKENS = 4_096
"""Tokens of one forward pass of the encoder, padding included."""


class ComposerConfig(BaseModel):
    """Shape of a composer.

    Attributes:
        latents: Latent vectors of one trace (K).
        depth: How often the compressor's block is applied.
        rank: Rank of the encoder's adapter.
        alpha: Scale of the encoder's adapter.
        scale: Starting size of latents: ``unit`` (each entry about 1, as published) or
            ``embedding`` (that of the backbone's token embeddings).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    latents: int = Field(default=32, ge=1)
    depth: int = Field(default=8, ge=1)
    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16.0, gt=0)
    scale: Literal["unit", "embedding"] = "embedding"


class Compressor(nn.Module):
    """Turns hidden states [B, T, d] into latents [B, K, d]."""

    def __init__(self, size: int, heads: int, config: ComposerConfig, scale: float) -> None:
        super().__init__()
        self._heads, self._depth = heads, config.depth
        self.project_in = nn.Linear(size, size)
        self.queries = nn.Parameter(torch.randn(config.latents, size) / math.sqrt(size))
        self.norm_latents, self.norm_inputs = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query, self.key, self.value, self.out = (
            nn.Linear(size, size, bias=False) for _ in range(4)
        )
        self.norm_ffn = nn.LayerNorm(size)
        self.up = nn.Linear(size, 4 * size, bias=False)
        self.down = nn.Linear(4 * size, size, bias=False)
        self.project_out = nn.Linear(size, size)
        self.norm_out = nn.LayerNorm(size)
        nn.init.constant_(self.norm_out.weight, scale)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        """Compress.

        Args:
            hidden: Last hidden states of the encoder, [B, T, d].
            real: Which of them are no padding, [B, T].
        """
        latents = self.queries.expand(len(hidden), -1, -1)
        inputs = self.norm_inputs(self.project_in(hidden))
        visible = torch.cat([real, real.new_ones(latents.shape[:2])], dim=1)[:, None, None]
        for _ in range(self._depth):
            normed = self.norm_latents(latents)
            latents = latents + self._attend(normed, torch.cat([inputs, normed], dim=1), visible)
            latents = latents + self.down(F.gelu(self.up(self.norm_ffn(latents))))
        out: Tensor = self.norm_out(self.project_out(latents))
        return out

    def _attend(self, latents: Tensor, context: Tensor, visible: Tensor) -> Tensor:
        query, key, value = (
            states.unflatten(-1, (self._heads, -1)).transpose(1, 2)
            for states in (self.query(latents), self.key(context), self.value(context))
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=visible)
        attended: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return attended


class Composer(nn.Module):
    """Encoder and compressor.

    Its parameters are those of the adapter (``lora.<n>``) and of the compressor; the backbone's
    belong to the backbone and never change. ``recompute`` says whether the encoder's blocks are
    computed again in the backward pass, to save memory.
    """

    recompute: bool = False

    def __init__(self, backbone: Backbone, config: ComposerConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self._backbone = backbone
        encoder = backbone.view()
        self.lora = nn.ParameterList(
            add_lora(encoder, rank=config.rank, alpha=config.alpha, seed=seed)
        )
        self._encoder: Any = [encoder.base_model]  # in a list, so that it is no submodule
        heads: int = encoder.config.num_attention_heads
        embeddings: Any = backbone.base.get_input_embeddings().weight
        # A norm's output has the size of an embedding, not of a hidden state.
        small = float(embeddings.detach().float().std(dim=0).mean())
        scale = small if config.scale == "embedding" else 1.0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.compressor = Compressor(backbone.hidden_size, heads, config, scale)
        self.to(backbone.device)

    def forward(self, instructions: Sequence[str], items: Sequence[str]) -> list[Tensor]:
        """Return the latents [K, d] of each item, read for the task of its instruction."""
        rows = [self._ids(*pair) for pair in zip(instructions, items, strict=True)]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        made: dict[int, Tensor] = {}
        while order:
            group = [order.pop()]
            while order and len(rows[group[0]]) * (len(group) + 1) <= _ENCODED_TOKENS:
                group.append(order.pop())
            made |= zip(group, self._compress([rows[index] for index in group]), strict=True)
        return [made[index] for index in range(len(rows))]

    def memories(self, tasks: Sequence[tuple[str, Sequence[Experience]]]) -> list[Tensor]:
        """Return the latents [J K, d] of the J experiences of each (instruction, experiences)."""
        instructions = [instruction for instruction, items in tasks for _ in items]
        texts = [item_text(x.instruction, x.trace) for _, items in tasks for x in items]
        made = iter(self(instructions, texts))
        return [torch.cat([next(made) for _ in items]) for _, items in tasks]

    def _ids(self, instruction: str, item: str) -> list[int]:
        encode = self._backbone.encode
        return encode(f"Task to solve:\n{instruction}") + encode(
            f"\n\nReference past trajectory:\n{item}"
        )

    def _compress(self, rows: Sequence[Sequence[int]]) -> Tensor:
        width = max(map(len, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        real = torch.zeros(len(rows), width, dtype=torch.bool)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row)
            real[index, : len(row)] = True
        ids, real = ids.to(self._backbone.device), real.to(self._backbone.device)
        # Padding is on the right and attention looks back only, so the encoder needs no mask.
        (encoder,) = self._encoder
        with recomputed_blocks(encoder, self.recompute):
            hidden = encoder(input_ids=ids, use_cache=False).last_hidden_state
        latents: Tensor = self.compressor(hidden.float(), real)
        return latents

    def save(self, folder: Path, *, dtype: torch.dtype = torch.float32) -> None:
        """Write ``composer.safetensors`` and ``composer.json``."""
        state = {name: tensor.to("cpu", dtype) for name, tensor in self.state_dict().items()}
        save_file(state, folder / WEIGHTS_FILE)
        text = json.dumps(self.config.model_dump(), indent=2)
        (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, backbone: Backbone, folder: Path) -> Composer:
        """Load what `save` wrote.

        Raises:
            DataError: The files are missing or damaged, or belong to another backbone.
        """
        try:
            config = ComposerConfig.model_validate_json((folder / CONFIG_FILE).read_bytes())
            state = load_file(folder / WEIGHTS_FILE)
            composer = cls(backbone, config)
            composer.load_state_dict({name: tensor.float() for name, tensor in state.items()})
        except (OSError, ValidationError, SafetensorError, RuntimeError) as err:
            reason = " ".join(str(err).split())[:200]
            raise DataError(
                f"Expected a composer for this model in '{folder}' ({CONFIG_FILE} and "
                f"{WEIGHTS_FILE}), found none that fits: {reason}"
            ) from err
        return composer


def make_composer(config: LOPDConfig, backbone: Backbone, seed: int) -> Composer:
    """Make the composer that LOPD's config asks for.

    Raises:
        UsageError: A pretrained composer is asked for and there is none, or it has another shape.
    """
    composer = _new_or_stored(config, backbone, seed)
    composer.recompute = config.gradient_checkpointing
    return composer


def _new_or_stored(config: LOPDConfig, backbone: Backbone, seed: int) -> Composer:
    wanted = ComposerConfig(
        latents=config.latents,
        depth=config.depth,
        rank=config.encoder_rank,
        alpha=config.encoder_alpha,
        scale=config.latent_scale,
    )
    if config.composer_init == "random":
        return Composer(backbone, wanted, seed)
    folder = _composer_folder(config.composer_init, backbone)
    if not (folder / CONFIG_FILE).is_file():
        raise UsageError(
            f"No pretrained composer in {folder}: use composer_init=random, or name the folder "
            f"that holds {CONFIG_FILE}."
        )
    composer = Composer.load(backbone, folder)
    if composer.config != wanted:
        raise UsageError(
            f"The composer in {folder} has the shape {composer.config}, the options ask for "
            f"{wanted}: make them agree, or use composer_init=random."
        )
    return composer


def _composer_folder(init: str, backbone: Backbone) -> Path:
    if init != "pretrained":
        return Path(init)
    folder = find_source(backbone.source).folder if backbone.source else None
    if folder is None:
        raise UsageError("Only a model in a folder can hold a pretrained composer.")
    return folder
