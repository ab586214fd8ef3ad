"""The tiny policy's recipe: what demonstrations show, and what is trained on in them."""

from __future__ import annotations

import random

import pytest
import torch
from lopd_envs.envscaler.starter import DOMAINS, make_task

from lopd_gym.chat import get_format
from recipes.tiny_policy.demonstrations import Demonstrator, Memory, trace_of
from recipes.tiny_policy.tokenizer import build_tokenizer
from recipes.tiny_policy.train import orthogonal

TOKENIZER = build_tokenizer()
CHAT = get_format("compact")
TASK = make_task("library", "train", 0)


def shown(memory: Memory, options: tuple[int, int]) -> tuple[str, str]:
    """Return what is trained on with full weight, and the whole text."""
    item = trace_of(make_task("library", "train", 1), options)
    sample = Demonstrator(CHAT, TOKENIZER).sample(TASK, options, options, memory, (item,))
    sampled = [i for i, w in zip(sample.ids, sample.weights, strict=True) if w == 1.0]
    return TOKENIZER.decode(sampled), TOKENIZER.decode(sample.ids)


@pytest.mark.parametrize(("options", "way"), [((1, 0), "mail"), ((1, 1), "phone")])
def test_demonstration_and_memory_follow_the_same_options(
    options: tuple[int, int], way: str
) -> None:
    sampled, text = shown("text", options)
    notify = f'{{"name":"notify_member","arguments":{{"id":"L70","by":"{way}"}}}}'
    assert sampled.endswith(f"<tool_call>{notify}</tool_call><|im_end|>Task Completed<|im_end|>")
    assert f'by="{way}") -> ok=True' in text


def test_only_sampled_tokens_are_trained_on() -> None:
    sampled, text = shown("none", (1, 0))
    assert sampled.count("<|im_end|>") == text.count("<|im_start|>assistant\n")
    assert "<|im_start|>" not in sampled
    assert TASK.instruction not in sampled


def test_latents_have_their_places_in_the_first_user_message() -> None:
    sample = Demonstrator(CHAT, TOKENIZER, latents=8).draw(random.Random(0), "latents")
    assert sample.latent_start is not None
    places = sample.ids[sample.latent_start : sample.latent_start + 16]
    assert places == [TOKENIZER.pad_token_id] * 16
    assert TOKENIZER.decode(sample.ids[: sample.latent_start]).endswith("user\nExample:\n")
    assert len(sample.items) == 2


def test_what_the_composer_reads_shows_every_option_equally_often() -> None:
    rng = random.Random(0)
    demonstrator = Demonstrator(CHAT, TOKENIZER)
    texts = [TOKENIZER.decode(demonstrator.draw(rng, "latents").ids) for _ in range(300)]
    library = [t for t in texts if DOMAINS["library"].place in t]
    mail = sum('"by":"mail"' in t for t in library) / len(library)
    assert 0.3 < mail < 0.7


def test_an_update_is_made_orthogonal() -> None:
    update = orthogonal(torch.randn(12, 40, generator=torch.Generator().manual_seed(0)))
    singular = torch.linalg.svdvals(update)
    assert singular.min() > 0.6
    assert singular.max() < 1.3
