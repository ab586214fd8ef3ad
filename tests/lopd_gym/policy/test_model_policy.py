"""Conversations as tokens: nothing that was sampled is ever tokenised again."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from lopd_gym.episode import Sampling
from lopd_gym.messages import AssistantMessage, Message, ToolCall, ToolSpec
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Completion, Policy, Prompt
from lopd_gym.policy.model_policy import ModelPolicy
from lopd_gym.tasks import Task
from tests.lopd_gym.policy.models import make_backbone

TASK = Task("t", "train", (Message("system", "You keep books."), Message("user", "Find Emma.")))
TOOLS = (ToolSpec("find", "Find a book."),)
T1 = Sampling(temperature=1.0, top_p=1.0, top_k=0)


@dataclass
class ScriptedEngine:
    """An engine whose turns are given, and which notes what it was asked."""

    turns: list[list[int]]
    cut_off: bool = False
    prompts: list[Prompt] = field(default_factory=list)
    extended: list[list[int]] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)

    def open(self, prompt: Prompt, *, seed: int, max_new_tokens: int) -> int:
        self.prompts.append(prompt)
        self.limits.append(max_new_tokens)
        self.waiting.append(0)
        return 0

    def extend(self, slot: int, ids: list[int], *, max_new_tokens: int) -> None:
        self.extended.append(ids)
        self.limits.append(max_new_tokens)
        self.waiting.append(slot)

    def step(self) -> list[Completion]:
        slots, self.waiting = self.waiting, []
        turns = [self.turns.pop(0) for _ in slots]
        drawn = zip(slots, turns, strict=True)
        return [Completion(s, ids, [-0.5] * len(ids), self.cut_off) for s, ids in drawn]

    def close(self, slot: int) -> None:
        self.closed.append(slot)


def spelled(backbone: Backbone, text: str) -> list[int]:
    """Tokenise letter by letter: valid ids that this tokenizer would never choose itself."""
    return [token for letter in text for token in backbone.encode(letter)]


def test_sampled_ids_are_kept_where_decoding_and_encoding_would_change_them():
    backbone = make_backbone(chat="chatml")
    text = '<tool_call>\n{"name": "find", "arguments": {"title": "the book"}}\n</tool_call>'
    sampled = [*spelled(backbone, text), backbone.end_of_turn_id]
    assert backbone.encode(backbone.decode(sampled)) != sampled  # otherwise this tests nothing
    engine = ScriptedEngine([sampled, [*spelled(backbone, "done"), backbone.end_of_turn_id]])
    policy = ModelPolicy(backbone, engine=engine)
    policy.begin(7, TASK, TOOLS, seed=0)
    (turn,) = policy.advance()
    assert turn.message == AssistantMessage("", (ToolCall("find", {"title": "the book"}),))
    policy.observe(7, (Message("tool", '{"id":1}'),))
    policy.advance()
    recording = policy.end(7)

    glue = backbone.encode(
        '\n<|im_start|>user\n<tool_response>\n{"id":1}\n</tool_response><|im_end|>\n'
        "<|im_start|>assistant\n"
    )
    assert engine.extended == [glue]
    prompt = engine.prompts[0].ids
    last = [*spelled(backbone, "done"), backbone.end_of_turn_id]
    assert recording.token_ids.tolist() == prompt + sampled + glue + last
    expected = [0] * len(prompt) + [1] * len(sampled) + [0] * len(glue) + [1] * len(last)
    assert recording.loss_mask.tolist() == [bool(x) for x in expected]
    turns = [-1] * len(prompt) + [0] * len(sampled) + [1] * (len(glue) + len(last))
    assert recording.turn_index.tolist() == turns
    assert (recording.logprobs[recording.loss_mask] == -0.5).all()
    assert (recording.logprobs[~recording.loss_mask] == 0).all()
    assert engine.closed == [0]


@pytest.mark.parametrize("chat", ["chatml", "qwen3", "qwen3-nothink", "olmo3", "compact"])
def test_the_prefix_ends_with_the_first_user_message(chat: str):
    backbone = make_backbone(chat=chat, extra=("\x00",))
    engine = ScriptedEngine([[5]])
    policy = ModelPolicy(backbone, engine=engine)
    policy.begin(0, TASK, TOOLS, seed=0)
    prefix, rest = backbone.chat.opening(TASK.messages, TOOLS)
    prompt = engine.prompts[0]
    assert prompt.ids[: prompt.prefix_len] == backbone.encode(prefix)
    assert backbone.decode(prompt.ids) == prefix + rest
    policy.advance()
    assert policy.end(0).prefix_len == prompt.prefix_len


def test_a_cut_off_turn_is_closed_and_is_no_final_answer():
    backbone = make_backbone(chat="chatml")
    engine = ScriptedEngine([spelled(backbone, "I think th"), [backbone.end_of_turn_id]], True)
    policy = ModelPolicy(backbone, engine=engine)
    policy.begin(0, TASK, TOOLS, seed=0)
    (turn,) = policy.advance()
    assert turn.message.cut_off
    assert "cut off" in (turn.message.parse_error or "")
    policy.observe(0, (Message("user", "go on"),))
    assert engine.extended[0][0] == backbone.end_of_turn_id


def test_an_end_of_text_is_not_an_end_of_turn():
    backbone = make_backbone(chat="chatml")
    eos = backbone.tokenizer.eos_token_id
    engine = ScriptedEngine([[*backbone.encode("done"), eos], [eos]])
    policy = ModelPolicy(backbone, engine=engine)
    policy.begin(0, TASK, TOOLS, seed=0)
    (turn,) = policy.advance()
    assert turn.message == AssistantMessage("done")
    policy.observe(0, (Message("user", "go on"),))
    assert engine.extended[0][0] == backbone.end_of_turn_id


def test_turns_get_what_room_is_left_and_a_full_conversation_says_so():
    backbone = make_backbone(chat="chatml")
    engine = ScriptedEngine([backbone.encode("on and on")], True)
    length = len(make_prompt_ids(backbone))
    policy = ModelPolicy(backbone, engine=engine, max_new_tokens=50, max_context_tokens=length + 20)
    policy.begin(0, TASK, TOOLS, seed=0)
    assert engine.limits == [20]
    policy.advance()
    policy.observe(0, (Message("user", "more " * 20),))
    assert policy.context_tokens(0) > length + 20
    (turn,) = policy.advance()
    assert turn.sampled_tokens == 0
    assert turn.message.cut_off
    assert turn.message.parse_error is not None
    assert engine.extended == []
    policy.end(0)
    assert policy.advance() == []


def make_prompt_ids(backbone: Backbone) -> list[int]:
    prefix, rest = backbone.chat.opening(TASK.messages, TOOLS)
    return backbone.encode(prefix) + backbone.encode(rest)


def test_a_prompt_that_fills_the_context_is_never_sent():
    engine = ScriptedEngine([])
    policy = ModelPolicy(make_backbone(), engine=engine, max_context_tokens=10)
    policy.begin(0, TASK, TOOLS, seed=0)
    (turn,) = policy.advance()
    assert turn.message.cut_off
    assert not policy.end(0).loss_mask.any()
    assert engine.prompts == []


def test_a_real_episode_is_token_exact_and_its_logprobs_are_the_models():
    backbone = make_backbone()
    policy: Policy = ModelPolicy(backbone, sampling=T1, max_new_tokens=12)
    for key in (3, 8, 5):
        policy.begin(key, TASK, TOOLS, seed=key)
    counts = dict.fromkeys((3, 8, 5), 0)
    while min(counts.values()) < 3:
        for turn in policy.advance():
            counts[turn.key] += 1
            assert turn.sampled_tokens <= 12
            assert turn.generation_s > 0
            policy.observe(turn.key, (Message("tool", "ok " * (turn.key + counts[turn.key])),))
    for key in counts:
        recording = policy.end(key)
        ids = torch.from_numpy(recording.token_ids).long()
        with torch.no_grad():
            full = backbone.student(ids[None]).logits[0].log_softmax(-1)
        expected = full[:-1].gather(-1, ids[1:, None])[:, 0].numpy()
        sampled = recording.loss_mask[1:]
        np.testing.assert_allclose(recording.logprobs[1:][sampled], expected[sampled], atol=2e-5)


def test_a_teacher_brings_its_own_prompt():
    backbone = make_backbone()
    latents = torch.zeros(2, backbone.hidden_size)
    prompt = Prompt([5, 0, 0, 6], 3, latents, 1)
    engine = ScriptedEngine([[7]])
    policy = ModelPolicy(backbone, engine=engine, make_prompt=lambda task, tools: prompt)
    policy.begin(0, TASK, TOOLS, seed=0)
    assert engine.prompts == [prompt]


def test_the_version_is_that_of_the_weights_that_play():
    backbone = make_backbone()
    student, base = ModelPolicy(backbone), ModelPolicy(backbone, weights="base")
    backbone.mark_updated()
    assert (student.version, base.version) == (1, 0)
