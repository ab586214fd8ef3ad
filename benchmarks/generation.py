"""Tokens per second of the multi-turn engine, against `generate` on the full prompt every turn.

Both play the same schedule of episodes: the same prompts, as many sampled tokens per turn, the
same new messages. Times are CPU seconds of one thread, so that a busy machine changes little.

Run: ``python -m benchmarks.generation``
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from benchmarks.report import report
from lopd_gym.chat import get_format
from lopd_gym.episode import Sampling
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.base import Prompt
from lopd_gym.policy.engine import MultiTurnEngine

VOCABULARY = 1003
SAMPLING = Sampling(temperature=0.7, top_p=0.95, top_k=20)


@dataclass(frozen=True)
class Case:
    """A schedule of episodes; ``turn_tokens`` are drawn evenly between the two bounds."""

    name: str
    episodes: int
    prompt_tokens: int
    turns: int
    turn_tokens: tuple[int, int]
    message_tokens: int
    target: float
    repeats: int


CASES = [
    Case("tiny policy", 64, 75, 5, (4, 20), 15, target=2.0, repeats=3),
    Case("tiny policy, all turns of one length", 64, 75, 5, (12, 12), 15, target=2.0, repeats=3),
    Case("4,000-token prompts", 4, 4000, 10, (4, 20), 40, target=3.0, repeats=1),
]


class Schedule:
    """What a case fixes: prompts, turn lengths and messages, by episode and turn."""

    def __init__(self, case: Case) -> None:
        rng = np.random.default_rng(0)
        low, high = case.turn_tokens

        def text(mean: int) -> list[int]:
            count = int(rng.integers(3 * mean // 4, 5 * mean // 4 + 1))
            return rng.integers(5, VOCABULARY, count).tolist()

        episodes, turns = range(case.episodes), range(case.turns)
        self.turns = case.turns
        self.prompts = [text(case.prompt_tokens) for _ in episodes]
        self.lengths = rng.integers(low, high + 1, (case.episodes, case.turns)).tolist()
        self.messages = [[text(case.message_tokens) for _ in turns] for _ in episodes]
        self.sampled = sum(map(sum, self.lengths))


def by_engine(backbone: Backbone, schedule: Schedule) -> None:
    engine = MultiTurnEngine(backbone, sampling=SAMPLING, stop_ids=())
    turn = {}
    for episode, ids in enumerate(schedule.prompts):
        limit = schedule.lengths[episode][0]
        turn[engine.open(Prompt(ids, len(ids)), seed=episode, max_new_tokens=limit)] = 0
    while turn:
        for completion in engine.step():
            episode = completion.slot  # slots are handed out in order, and none is reused here
            new = schedule.messages[episode][turn[episode]]
            turn[episode] += 1
            if turn[episode] == schedule.turns:
                del turn[episode]
                continue
            limit = schedule.lengths[episode][turn[episode]]
            engine.extend(episode, new, max_new_tokens=limit)


def by_generate(backbone: Backbone, schedule: Schedule) -> None:
    """Play all episodes turn by turn; a batch is as long as its longest turn."""
    model = backbone.base
    texts = [list(ids) for ids in schedule.prompts]
    for turn in range(schedule.turns):
        lengths = [row[turn] for row in schedule.lengths]
        width = max(map(len, texts))
        ids = torch.tensor([[0] * (width - len(t)) + t for t in texts])
        mask = torch.tensor([[0] * (width - len(t)) + [1] * len(t) for t in texts])
        output = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=max(lengths),
            do_sample=True,
            temperature=SAMPLING.temperature,
            top_p=SAMPLING.top_p,
            top_k=SAMPLING.top_k,
            pad_token_id=0,
            eos_token_id=None,
        )
        for episode, length in enumerate(lengths):
            texts[episode] += output[episode, width : width + length].tolist()
            texts[episode] += schedule.messages[episode][turn]


def random_backbone() -> Backbone:
    """A random model of the tiny policy's size: speed does not depend on what weights say."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        eos_token_id=None,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).eval().requires_grad_(False)
    words = {"<pad>": 0, "<|im_end|>": 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokenizer.add_special_tokens(list(words))
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    return Backbone(model, wrapped, get_format("chatml"), student=StudentConfig(rank=8))


def tokens_per_second(
    play: Callable[[Backbone, Schedule], None], backbone: Backbone, case: Case
) -> float:
    """Return the best of the repeats: sampled tokens per CPU second."""
    schedule = Schedule(case)
    best = 0.0
    for _ in range(case.repeats):
        started = time.process_time()
        play(backbone, schedule)
        best = max(best, schedule.sampled / (time.process_time() - started))
    return best


def main() -> None:
    torch.set_num_threads(1)
    backbone = random_backbone()
    measured: dict[str, tuple[float, float | None]] = {}
    for case in CASES:
        engine = tokens_per_second(by_engine, backbone, case)
        generate = tokens_per_second(by_generate, backbone, case)
        measured[f"{case.name}: engine, tokens/s"] = (engine, None)
        measured[f"{case.name}: generate, tokens/s"] = (generate, None)
        measured[f"{case.name}: ratio"] = (engine / generate, case.target)
    report("generation", measured)


if __name__ == "__main__":
    main()
