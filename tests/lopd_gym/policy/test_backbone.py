"""One copy of the weights, several views; updates, export, and what can go wrong on loading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lopd_gym.chat import FORMAT_FILE, get_format
from lopd_gym.errors import DataError, UsageError
from lopd_gym.policy import loading
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.lora import add_lora
from tests.lopd_gym.policy.models import make_backbone, make_model, make_tokenizer

IDS = torch.arange(5, 45)[None]


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def perturb(backbone: Backbone) -> None:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in backbone.student_parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    backbone.mark_updated()


def test_views_share_every_tensor_and_no_module():
    backbone = make_backbone()
    view = backbone.view()
    pairs = zip(view.parameters(), backbone.base.parameters(), strict=True)
    assert all(ours is theirs for ours, theirs in pairs)
    assert not set(map(id, view.modules())) & set(map(id, backbone.base.modules()))


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_the_student_starts_as_the_base_and_never_moves_it(kind: str):
    backbone = make_backbone(kind=kind)
    before = logits(backbone.base)
    torch.testing.assert_close(logits(backbone.student), before, rtol=0, atol=1e-6)
    perturb(backbone)
    assert (logits(backbone.student) - before).abs().max() > 0.1
    assert torch.equal(logits(backbone.base), before)


def test_an_adapter_gets_gradients_and_the_teacher_none_even_under_checkpointing():
    """Recomputing a checkpointed block must not meet the adapter of another view."""
    backbone = make_backbone()
    encoder = backbone.view()
    adapter = add_lora(encoder, rank=2, alpha=4, seed=1)
    with torch.no_grad():
        for parameter in adapter:
            parameter.add_(0.1)
    backbone.base.activation_checkpointing_enable()
    backbone.base.train()
    latents = backbone.base.get_input_embeddings()(IDS).requires_grad_()
    expected = make_backbone().base(inputs_embeds=latents).logits
    output = backbone.base(inputs_embeds=latents).logits
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    (wanted,) = torch.autograd.grad(expected.sum(), latents)
    encoder(IDS).logits.sum().backward()
    (found,) = torch.autograd.grad(output.sum(), latents)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in adapter)
    assert all(p.grad is None for p in backbone.base.parameters())


def test_the_adapter_sits_on_all_seven_projections_in_float32():
    backbone = make_backbone()
    names = list(backbone.student_state())
    assert len(names) == 2 * 7 * 2
    assert all(p.dtype == torch.float32 for p in backbone.student_parameters())
    again = make_backbone().student_state()
    assert all(torch.equal(again[n], t) for n, t in backbone.student_state().items())


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_a_students_state_goes_round(kind: str):
    trained, fresh = make_backbone(kind=kind), make_backbone(kind=kind)
    perturb(trained)
    fresh.load_student_state(trained.student_state())
    assert torch.equal(logits(fresh.student), logits(trained.student))
    assert fresh.student_version == 1


def test_a_state_that_does_not_fit_is_refused():
    with pytest.raises(DataError, match="does not fit"):
        make_backbone(kind="full").load_student_state(make_backbone().student_state())


@pytest.mark.parametrize("kind", ["lora", "full"])
@pytest.mark.parametrize("family", ["qwen3", "llama", "olmo3"])
def test_an_exported_student_loads_with_plain_transformers(kind: str, family: str, tmp_path: Path):
    backbone = make_backbone(family, kind)
    perturb(backbone)
    folder = tmp_path / "runs" / "student"
    backbone.export_student(folder)
    backbone.export_student(folder)  # replaces the first
    assert [p.name for p in folder.parent.iterdir()] == ["student"]
    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.testing.assert_close(logits(model), logits(backbone.student), rtol=0, atol=1e-4)
    assert set(model.generation_config.eos_token_id) == backbone.stop_ids
    assert AutoTokenizer.from_pretrained(folder).encode("<|im_end|>") == [backbone.end_of_turn_id]
    again = Backbone.load(str(folder), student=StudentConfig(rank=2, alpha=2), device="cpu")
    assert again.chat.name == "qwen3"
    assert torch.equal(logits(again.base), logits(model))


def test_an_export_that_fails_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    backbone = make_backbone()
    folder = tmp_path / "student"
    backbone.export_student(folder)
    old = (folder / "model.safetensors").read_bytes()

    def fail(*args: object) -> None:
        raise OSError("disk full")

    perturb(backbone)
    monkeypatch.setattr(backbone.tokenizer, "save_pretrained", fail)
    with pytest.raises(UsageError, match="disk full"):
        backbone.export_student(folder)
    assert (folder / "model.safetensors").read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["student"]


def test_a_format_needs_its_end_of_turn_token():
    tokenizer = make_tokenizer()
    chat = get_format("qwen3")
    chat.end_of_turn = "<|eot|>"
    with pytest.raises(UsageError, match="another --chat-format"):
        Backbone(make_model("qwen3"), tokenizer, chat)


# -- what can go wrong on loading ------------------------------------------------------------


def test_a_folder_without_a_model_or_a_tokenizer_is_one_sentence(tmp_path: Path):
    with pytest.raises(DataError, match=r"expected a config\.json"):
        Backbone.load(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(DataError, match="holds no tokenizer"):
        Backbone.load(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="Cannot load the model"):
        Backbone.load(str(tmp_path))


@pytest.mark.parametrize("source", ["./absent", "/absent/model", "two words"])
def test_a_path_that_does_not_exist_is_not_looked_up_on_the_hub(source: str):
    with pytest.raises(DataError, match="No model at"):
        Backbone.load(source)


def test_a_hub_model_without_a_network_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    def no_network(*args: object, **kwargs: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(loading, "get_hf_file_metadata", no_network)
    with pytest.raises(DataError, match=r"Cannot find 'someone/absent-model' on the hub"):
        Backbone.load("someone/absent-model")


def test_a_missing_gguf_file_and_an_unknown_device_are_one_sentence(tmp_path: Path):
    with pytest.raises(DataError, match="No GGUF file"):
        Backbone.load(str(tmp_path / "model.gguf"))
    make_backbone().export_student(tmp_path / "model")
    with pytest.raises(UsageError, match="No device 'abacus'"):
        Backbone.load(str(tmp_path / "model"), device="abacus")


def test_a_named_chat_format_beats_the_folders(tmp_path: Path):
    make_backbone().export_student(tmp_path / "model")
    named = json.loads((tmp_path / "model" / FORMAT_FILE).read_text())
    assert named == {"chat_format": "qwen3"}
    loaded = Backbone.load(str(tmp_path / "model"), device="cpu", chat_format="olmo3")
    assert loaded.chat.name == "olmo3"
