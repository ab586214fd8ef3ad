"""Small random models with a real tokenizer, made in memory."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from lopd_gym.chat import get_format
from lopd_gym.policy.backbone import Backbone, StudentConfig

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
CORPUS = ["find the red book of the library", "the user asks: return {'id': 12}, please"] * 4
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}
FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "llama": (LlamaConfig, LlamaForCausalLM, {"attention_bias": True, "mlp_bias": True}),
    "olmo3": (Olmo3Config, Olmo3ForCausalLM, {"sliding_window": 8}),
}


def make_tokenizer(extra: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=[*SPECIAL, *extra],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )


def make_model(family: str, vocabulary: int = 320, seed: int = 0):
    config_type, model_type, options = FAMILIES[family]
    torch.manual_seed(seed)
    model = model_type(config_type(vocab_size=vocabulary, **SIZES, **options))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Larger than the usual start, and off 1 and 0, so that every weight matters.
            noise = torch.randn_like(parameter)
            parameter.copy_(1 + 0.2 * noise if "norm" in name else 0.15 * noise)
    return model.eval().requires_grad_(False)


def make_backbone(
    family: str = "qwen3", kind: str = "lora", chat: str = "qwen3", extra: tuple[str, ...] = ()
) -> Backbone:
    student = StudentConfig(kind=kind, rank=4, alpha=8)
    return Backbone(make_model(family), make_tokenizer(extra), get_format(chat), student=student)
