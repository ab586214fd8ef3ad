"""LOPD's options, and the presets: ``paper`` (the defaults) and ``tiny``.

Where paper and released code differ, the default is what the code does for the reduction of losses
and the anchor (a mean), and what the paper says for the cold start's clip.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FRAMING_BEFORE = (
    "Below is a compressed record of how a different task was solved earlier, in another session. "
    "None of it has been done here; it is only an example.\n[example]\n"
)
FRAMING_AFTER = (
    "\n[end of example]\nNow solve your own task, starting from an untouched environment and "
    "carrying out every step yourself.\n\n"
)


class LOPDConfig(BaseModel):
    """Options of LOPD; the defaults are the paper's (section 4 and appendix B).

    Attributes:
        items: Experiences retrieved for each task (J).
        latents: Latent vectors of each experience (K).
        support: Tokens of the teacher's support, beside the tail (M).
        self_retrieval: Whether a task's own past success may be retrieved.
        bank_rollouts: Episodes of the base policy that fill the bank before training.
        grow_bank: Whether successes of training enter the bank too, for the steps after them.
        margin: Log-ratio by which the teacher should lead, in nats per token (m).
        beta: Starting value of the margin's dual variable.
        beta_rate: Its step size; with ``beta`` 0 and a rate of 0 there is no margin.
        beta_cap: Its largest value; None for no cap.
        delta_clamp: Clamp of single log-ratios, in nats; None for no clamp.
        anchor: Weight of the pull towards the cold-start latents (lambda).
        composer: Whether it is trained along with the student, or stays ``frozen`` after its cold
            start (the paper's ablation).
        composer_init: ``random``, ``pretrained`` (ships in the model's folder), or a folder.
        depth: How often the compressor's block is applied.
        encoder_rank: Rank of the encoder's LoRA adapter.
        encoder_alpha: Scale of the encoder's LoRA adapter.
        latent_scale: Starting size of latents: ``unit`` (each entry about 1, as published) or
            ``embedding`` (that of token embeddings).
        student_lr: Learning rate of the student.
        composer_lr: Learning rate of the composer in training.
        weight_decay: AdamW's weight decay, for both.
        clip: Largest gradient norm, for both.
        cold_start_steps: Steps of the cold start on the bank's own successes.
        cold_start_batch: Episodes of one such step.
        cold_start_lr: Learning rate of the cold start.
        cold_start_clip: Largest gradient norm in the cold start.
        framing_before: Text before the latents, in the first user message.
        framing_after: Text between the latents and the task.
        gradient_checkpointing: Whether blocks are computed again in the backward pass, which
            long episodes and large models need for their memory.
        micro_batch_tokens: Tokens of one forward pass, padding included; results do not depend
            on it.
        max_tokens: Longer episodes are cut off here for training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int = Field(3, ge=1)
    latents: int = Field(32, ge=1)
    support: int = Field(20, ge=1)
    self_retrieval: bool = False
    bank_rollouts: int = Field(320, ge=0)
    grow_bank: bool = False
    margin: float = 0.05
    beta: float = Field(0.0, ge=0)
    beta_rate: float = Field(0.5, ge=0)
    beta_cap: float | None = None
    delta_clamp: float | None = Field(None, gt=0)
    anchor: float = Field(0.2, ge=0)
    composer: Literal["train", "frozen"] = "train"
    composer_init: str = "random"
    depth: int = Field(8, ge=1)
    encoder_rank: int = Field(8, ge=1)
    encoder_alpha: float = Field(16.0, gt=0)
    latent_scale: Literal["unit", "embedding"] = "unit"
    student_lr: float = Field(1e-5, gt=0)
    composer_lr: float = Field(1e-5, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)
    cold_start_steps: int = Field(1_000, ge=0)
    cold_start_batch: int = Field(8, ge=1)
    cold_start_lr: float = Field(1e-5, gt=0)
    cold_start_clip: float = Field(3.0, gt=0)
    framing_before: str = FRAMING_BEFORE
    framing_after: str = FRAMING_AFTER
    gradient_checkpointing: bool = True
    micro_batch_tokens: int = Field(8_192, ge=1)
    max_tokens: int = Field(40_000, ge=1)


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "tiny": {
        "items": 2,
        "latents": 8,
        "support": 16,
        "bank_rollouts": 48,
        "grow_bank": True,
        "margin": 0.005,
        "beta_cap": 2.0,
        "composer_init": "pretrained",
        "depth": 2,
        "latent_scale": "embedding",
        "student_lr": 1e-3,
        "composer_lr": 1e-4,
        "cold_start_steps": 10,
        "cold_start_lr": 1e-4,
        "gradient_checkpointing": False,
        "framing_before": "Example:\n",
        "framing_after": "\nYour task:\n",
    },
}
