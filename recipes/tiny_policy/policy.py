"""The warm start: a copying drill, then demonstrations with and without a memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from transformers import GenerationConfig, Qwen3ForCausalLM

from lopd_gym.chat import FORMAT_FILE, get_format
from lopd_gym.episode import Sampling
from recipes.tiny_policy.demonstrations import Demonstrator, Sample
from recipes.tiny_policy.model import build_model
from recipes.tiny_policy.train import Report, Schedule, repeated_words, train

DRILL = Schedule(tokens=250_000, batch_tokens=2_000, decay_from=0.99)
DEMONSTRATIONS = Schedule(tokens=7_000_000, batch_tokens=9_000, decay_from=0.4)

WITHOUT_MEMORY, OTHER_DOMAIN = 0.48, 0.10
"""Shares of the demonstrations; the rest have a memory of their own domain."""


def make_policy(tokenizer: Any, seed: int, report: Report) -> Qwen3ForCausalLM:
    """Train the tiny policy from nothing."""
    demonstrator = Demonstrator(get_format("compact"), tokenizer)

    def demonstration(number: int) -> Sample:
        rng = random.Random(f"{seed}/{number}")
        kind = rng.random()
        if kind < WITHOUT_MEMORY:
            return demonstrator.draw(rng, "none")
        return demonstrator.draw(rng, "text", same_domain=kind < 1 - OTHER_DOMAIN)

    model = build_model(len(tokenizer), seed)
    train(model, lambda n: repeated_words(len(tokenizer), seed, n), DRILL, report)
    train(model, demonstration, DEMONSTRATIONS, report)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def save_policy(model: Qwen3ForCausalLM, tokenizer: Any, folder: Path) -> None:
    """Write an ordinary Hugging Face folder that also names the chat format."""
    sampling = Sampling()
    model.config.eos_token_id = tokenizer.eos_token_id
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        do_sample=True,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / FORMAT_FILE).write_text('{"chat_format": "compact"}\n', encoding="utf-8")
