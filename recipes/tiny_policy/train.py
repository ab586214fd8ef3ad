"""The training loop: Muon for matrices, AdamW for the rest, loss on marked tokens.

Schedules count tokens or steps, never seconds, so that a run can be repeated anywhere.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from transformers import Qwen3ForCausalLM

from recipes.tiny_policy.demonstrations import Sample

Latents = Callable[[Sequence[Sample]], list[torch.Tensor]]
"""Turns the traces of samples into latents, [n, hidden size] for each sample."""
Report = Callable[[int, float], None]
"""Called after each step with the share of the work done in per mille and a smoothed loss."""

_WARM_UP = 20
_ROWS = 16


@dataclass(frozen=True, slots=True)
class Schedule:
    """One phase of training.

    Attributes:
        tokens: Tokens to see.
        batch_tokens: Tokens of one step, roughly.
        matrix_lr: Learning rate of Muon.
        other_lr: Learning rate of AdamW.
        decay_from: Share of the tokens after which the rates fall linearly to a twentieth.
    """

    tokens: int
    batch_tokens: int
    matrix_lr: float = 0.02
    other_lr: float = 3e-3
    decay_from: float = 0.5

    def speed(self, step: int, seen: int) -> float:
        """Return the factor on the learning rates."""
        left = (1 - seen / self.tokens) / (1 - self.decay_from)
        return min(1.0, step / _WARM_UP, max(0.05, left))


class Muon:
    """Momentum with orthogonalised updates, for matrices (Jordan et al. 2024, "Muon")."""

    def __init__(self, matrices: Iterable[nn.Parameter], momentum: float = 0.95) -> None:
        self._pairs = [(m, torch.zeros_like(m)) for m in matrices]
        self._momentum = momentum

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update every matrix that has a gradient, and forget the gradient."""
        for matrix, buffer in self._pairs:
            if matrix.grad is None:
                continue
            buffer.mul_(self._momentum).add_(matrix.grad)
            update = orthogonal(matrix.grad.add(buffer, alpha=self._momentum))
            scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
            matrix.add_(update, alpha=-lr * scale)
            matrix.grad = None


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return roughly the nearest matrix with singular values near 1 (Newton-Schulz, 5 steps)."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * gram + 2.0315 * gram @ gram) @ wide
    result: torch.Tensor = wide.T if matrix.shape[0] > matrix.shape[1] else wide
    return result


def train(
    model: Qwen3ForCausalLM,
    draw: Callable[[int], Sample],
    schedule: Schedule,
    report: Report,
    *,
    trained: nn.Module | None = None,
    latents: Latents | None = None,
) -> None:
    """Train a model, or a composer whose latents it reads, on drawn samples.

    Args:
        model: The model.
        draw: Returns the sample with a number.
        schedule: How long and how fast.
        report: Told about progress.
        trained: What is trained; by default the model.
        latents: Makes latents; needed for samples that have them.
    """
    matrices, others = split_parameters(model if trained is None else trained)
    muon = Muon(matrices)
    adam = torch.optim.AdamW(others, lr=schedule.other_lr, betas=(0.9, 0.95), weight_decay=0.0)
    seen, number, step, smooth = 0, 0, 0, math.nan
    while seen < schedule.tokens:
        batch: list[Sample] = []
        while sum(len(s.ids) for s in batch) < schedule.batch_tokens:
            batch.append(draw(number))
            number += 1
        loss = batch_loss(model, batch, latents)
        loss.backward()  # type: ignore[no-untyped-call]
        step += 1
        speed = schedule.speed(step, seen)
        nn.utils.clip_grad_norm_(others, 1.0)
        muon.step(schedule.matrix_lr * speed)
        for group in adam.param_groups:
            group["lr"] = schedule.other_lr * speed
        adam.step()
        adam.zero_grad()
        seen += sum(len(s.ids) for s in batch)
        smooth = loss.item() if math.isnan(smooth) else 0.95 * smooth + 0.05 * loss.item()
        report(round(1000 * seen / schedule.tokens), smooth)


def split_parameters(module: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the matrices that Muon trains, and everything else.

    Embeddings and learned queries are tables of vectors, and adapters have their own scale.
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in module.named_parameters():
        table = any(part in name for part in ("embed", "queries", "lora"))
        if parameter.requires_grad:
            (others if table or parameter.ndim != 2 else matrices).append(parameter)
    return matrices, others


def batch_loss(
    model: Qwen3ForCausalLM, batch: Sequence[Sample], latents: Latents | None
) -> torch.Tensor:
    """Weighted mean of the token losses of a batch, in micro-batches of similar length."""
    total = sum(w for s in batch for w in s.weights[1:])
    with_latents = [s for s in batch if s.latent_start is not None]
    made = latents(with_latents) if latents and with_latents else []
    by_sample = {id(s): z for s, z in zip(with_latents, made, strict=True)}
    ordered = sorted(batch, key=lambda s: len(s.ids))
    parts = [ordered[i : i + _ROWS] for i in range(0, len(ordered), _ROWS)]
    return torch.stack([_part_loss(model, p, by_sample) for p in parts]).sum() / total


def _part_loss(
    model: Qwen3ForCausalLM, batch: Sequence[Sample], latents: dict[int, torch.Tensor]
) -> torch.Tensor:
    width = max(len(s.ids) for s in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    weights = torch.zeros(len(batch), width)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
        weights[row, : len(sample.ids)] = torch.tensor(sample.weights)
    embeds = model.model.embed_tokens(ids)
    if latents:
        embeds = torch.stack(
            [_placed(embeds[row], s, latents.get(id(s))) for row, s in enumerate(batch)]
        )
    hidden = model.model(inputs_embeds=embeds[:, :-1], use_cache=False).last_hidden_state
    supervised = weights[:, 1:] > 0
    logits = model.lm_head(hidden[supervised])
    losses = nn.functional.cross_entropy(logits, ids[:, 1:][supervised], reduction="none")
    return (losses * weights[:, 1:][supervised]).sum()


def _placed(embeds: torch.Tensor, sample: Sample, latents: torch.Tensor | None) -> torch.Tensor:
    if latents is None or sample.latent_start is None:
        return embeds
    end = sample.latent_start + len(latents)
    return torch.cat([embeds[: sample.latent_start], latents, embeds[end:]])


def repeated_words(vocabulary: int, seed: int, number: int) -> Sample:
    """Draw a copying drill: a random sequence of different tokens, twice."""
    rng = random.Random(f"{seed}/drill/{number}")
    half = rng.sample(range(vocabulary), rng.randrange(8, 33))
    sample = Sample()
    sample.add(half, 0.0)
    sample.add(half[:1], 0.0)
    sample.add(half[1:], 1.0)
    return sample
