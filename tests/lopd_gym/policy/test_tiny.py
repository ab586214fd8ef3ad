"""The tiny policy that ships with the package: its tokenizer, its habits and how well it reads."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lopd_envs.envscaler.starter import DOMAINS, StarterEnv, vocabulary
from lopd_learners.lopd.composer import Composer
from transformers import AutoModelForCausalLM, AutoTokenizer

from lopd_gym.chat import FORMAT_FILE, get_format
from lopd_gym.episode import GREEDY
from lopd_gym.messages import AssistantMessage, Message, ToolCall
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.loading import TINY_FOLDER
from recipes.tiny_policy.evaluate import alone, play, with_latents, with_text

TOKENIZER = AutoTokenizer.from_pretrained(TINY_FOLDER)


def tokens(text: str) -> list[int]:
    ids: list[int] = TOKENIZER.encode(text, add_special_tokens=False)
    return ids


@pytest.fixture(scope="module")
def tiny() -> Backbone:
    torch.set_num_threads(1)
    return Backbone.load("tiny", student=StudentConfig(kind="full"), device="cpu")


def test_the_folder_is_an_ordinary_model_of_a_few_megabytes() -> None:
    model = AutoModelForCausalLM.from_pretrained(TINY_FOLDER)
    assert type(model).__name__ == "Qwen3ForCausalLM"
    assert sum(p.numel() for p in model.parameters()) < 2_000_000
    assert model.config.max_position_embeddings >= 8_192
    assert len(TOKENIZER) == model.config.vocab_size
    assert model.generation_config.eos_token_id == TOKENIZER.eos_token_id
    assert sum(f.stat().st_size for f in TINY_FOLDER.iterdir()) < 6 << 20
    assert not [f for f in TINY_FOLDER.iterdir() if f.suffix in {".bin", ".pt", ".pkl"}]


@given(
    st.text()
    | st.lists(st.sampled_from(vocabulary()) | st.text(max_size=3), max_size=9).map("".join)
)
def test_any_text_survives_the_tokenizer(text: str) -> None:
    assert TOKENIZER.decode(tokens(text), clean_up_tokenization_spaces=False) == text


def test_what_must_be_copied_is_the_same_single_token_everywhere() -> None:
    for world in DOMAINS.values():
        for spec in world.specs():
            (name,) = tokens(spec.name)
            assert name in tokens(f'<tool_call>{{"name":"{spec.name}","arguments":{{}}}}')
            assert name in tokens(f"1. {spec.name}(id=")
        for thing in world.things:
            assert tokens(f'"{thing}"')[1:-1] == tokens(thing)
            assert len(tokens(thing)) == 1
        assert len(tokens(f"{world.letter}61")) == 2


def test_plain_transformers_renders_the_same_conversation() -> None:
    chat = get_format("compact")
    task = StarterEnv().tasks("train")[0]
    specs = DOMAINS[task.group].specs()
    call = AssistantMessage(tool_calls=(ToolCall("find_loan", {"member": "Ana", "n": 2}),))
    answer = Message("tool", '{"id":"L61"}')
    rendered = "".join(chat.opening(task.messages, specs)) + chat.write(call) + "<|im_end|>"
    rendered += chat.following([answer], ended=True)
    plain = [{"role": m.role, "content": m.content} for m in task.messages]
    function = {"name": "find_loan", "arguments": {"member": "Ana", "n": 2}}
    plain.append({"role": "assistant", "content": "", "tool_calls": [{"function": function}]})
    plain.append({"role": "tool", "content": answer.content})
    by_template = TOKENIZER.apply_chat_template(
        plain, tools=[s.as_openai() for s in specs], add_generation_prompt=True, tokenize=False
    )
    assert by_template == rendered


def test_there_is_something_to_teach_and_a_way_to_teach_it(tiny: Backbone) -> None:
    # The bands are .2 to .4 and above .8; standard errors are .04 and .05.
    assert 0.15 <= play(tiny, GREEDY, alone(tiny), tasks=128).mean <= 0.45
    assert play(tiny, GREEDY, with_text(tiny, "own"), tasks=32).mean > 0.8


def test_the_composer_tells_the_policy_what_it_read(tiny: Backbone) -> None:
    composer = Composer.load(tiny, TINY_FOLDER)
    own = play(tiny, GREEDY, with_latents(tiny, composer, "own"), tasks=32).mean
    other = play(tiny, GREEDY, with_latents(tiny, composer, "other"), tasks=32).mean
    assert own > 0.7
    assert other < 0.5


def test_the_folder_names_its_chat_format() -> None:
    assert json.loads((TINY_FOLDER / FORMAT_FILE).read_text()) == {"chat_format": "compact"}
