"""The options that every learner of the student alone has."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class TrainingConfig(BaseModel):
    """How the student's weights are stepped.

    Attributes:
        lr: Learning rate of AdamW.
        weight_decay: AdamW's weight decay.
        clip: Largest gradient norm.
        gradient_checkpointing: Whether blocks are computed again in the backward pass, which
            long episodes and large models need for their memory.
        micro_batch_tokens: Tokens of one forward pass, padding included; results do not depend
            on it.
        max_tokens: Longer episodes are cut off here for training.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lr: Positive = 1e-5
    weight_decay: float = Field(0.01, ge=0)
    clip: Positive = 1.0
    gradient_checkpointing: bool = True
    micro_batch_tokens: int = Field(8_192, ge=1)
    max_tokens: int = Field(40_000, ge=1)
