"""The tiny policy's architecture, and an initialisation that can copy from the start.

Copying (names, things, ids) is what a tiny transformer learns last. Two kinds of attention heads
do it in every trained one: a head that looks at the previous token, and one that looks for an
earlier place that followed the same token and repeats what came there (Olsson et al. 2022,
"In-context Learning and Induction Heads"). Here they are put in by hand, and training refines
them: copying is learned from about 0.3 million tokens instead of several million.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

_CONSTANT = 0
"""The dimension in which all embeddings agree, so that a head can ignore what a token is."""
_FAST_PAIRS = 5
_SLOW = 0.02
"""RoPE pairs that turn by less than this per position (in radians) hardly see positions."""


def build_model(vocabulary: int, seed: int) -> Qwen3ForCausalLM:
    """Build the model with about one million parameters, its copying heads put in."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        tie_word_embeddings=True,
        max_position_embeddings=8_192,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        _put_in_copying_heads(model, torch.Generator().manual_seed(seed))
    return model


def _put_in_copying_heads(model: Qwen3ForCausalLM, rng: torch.Generator) -> None:
    config: Any = model.config
    size, head = config.hidden_size, config.head_dim
    embeddings = model.model.embed_tokens.weight
    embeddings.normal_(0, 0.05, generator=rng)
    embeddings[:, _CONSTANT] = 0.25
    code = _content_code(head, size, rng)
    written = [_random(size, head, rng) for _ in range(2)]
    for matrix in written:
        matrix[_CONSTANT] = 0
    for number, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        for weight in (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj):
            weight.weight.mul_(0.3)
        layer.mlp.down_proj.weight.mul_(0.3)
        attention.q_norm.weight.fill_(1.5)
        attention.k_norm.weight.fill_(1.5)
        if number == 0:
            _previous_token_heads(attention, code, written, config)
        else:
            _matching_heads(attention, code, written, config, rng, both=number == 1)


def _previous_token_heads(
    attention: Any,
    code: torch.Tensor,
    written: list[torch.Tensor],
    config: Any,
) -> None:
    """Make the first group of heads look one position back and write down what was there.

    Query and key depend on the constant dimension alone. The key has equal parts in the fastest
    RoPE pairs, and the query is that key turned back by one position, so they agree at distance 1.
    """
    head, half = config.head_dim, config.head_dim // 2
    turns = _frequencies(config)[:_FAST_PAIRS]
    key, query = torch.zeros(head), torch.zeros(head)
    key[:_FAST_PAIRS] = 1.0
    query[:_FAST_PAIRS] = torch.cos(turns)
    query[half : half + _FAST_PAIRS] = -torch.sin(turns)
    attention.k_proj.weight[:head].mul_(0.1)
    attention.k_proj.weight[:head, _CONSTANT] += 3 * key
    attention.v_proj.weight[:head] = code
    for number, matrix in enumerate(written):
        rows = slice(number * head, (number + 1) * head)
        attention.q_proj.weight[rows].mul_(0.1)
        attention.q_proj.weight[rows, _CONSTANT] += 3 * query
        attention.o_proj.weight[:, rows] = matrix


def _matching_heads(
    attention: Any,
    code: torch.Tensor,
    written: list[torch.Tensor],
    config: Any,
    rng: torch.Generator,
    *,
    both: bool,
) -> None:
    """Let heads look for places whose previous token is the current one, and copy from there.

    The match is made in the slow RoPE pairs. ``both`` sets up both groups of heads.
    """
    head, half = config.head_dim, config.head_dim // 2
    groups = config.num_attention_heads // config.num_key_value_heads
    slow = torch.nonzero(_frequencies(config) < _SLOW).flatten()
    into_slow = torch.zeros(head, head)
    columns = torch.arange(2 * len(slow))
    into_slow[torch.cat([slow, slow + half]), columns] = 1.0
    read = torch.linalg.pinv(written[0] + written[1])
    for group in range(config.num_key_value_heads):
        rows = slice(group * head, (group + 1) * head)
        matches = both or group == 0
        if matches:
            attention.k_proj.weight[rows] += into_slow @ read
        value = _content_code(head, config.hidden_size, rng)
        attention.v_proj.weight[rows] = value
        for number in range(group * groups, (group + 1) * groups):
            own = slice(number * head, (number + 1) * head)
            if matches:
                attention.q_proj.weight[own] += into_slow @ code
            attention.o_proj.weight[:, own] = 0.7 * value.T


def _frequencies(config: Any) -> torch.Tensor:
    half = config.head_dim // 2
    turns: torch.Tensor = config.rope_parameters["rope_theta"] ** (-torch.arange(half) / half)
    return turns


def _content_code(rows: int, columns: int, rng: torch.Generator) -> torch.Tensor:
    """Return a random projection that tells tokens apart and ignores the constant dimension."""
    code = _random(rows, columns, rng)
    code[:, _CONSTANT] = 0
    return code


def _random(rows: int, columns: int, rng: torch.Generator) -> torch.Tensor:
    return torch.randn(rows, columns, generator=rng) / math.sqrt(columns)
