"""The composer: its shape, its batches, its adapter, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lopd_learners.forward import TokenRow, supervised_states
from lopd_learners.lopd.composer import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    Composer,
    ComposerConfig,
    make_composer,
)
from lopd_learners.lopd.config import LOPDConfig
from torch import Tensor

from lopd_gym.bank import Bank
from lopd_gym.errors import DataError, UsageError
from lopd_gym.policy.backbone import Backbone
from tests.lopd_gym.policy.models import make_backbone
from tests.lopd_learners.lopd.setting import OPTIONS, make_episode

CONFIG = ComposerConfig(latents=3, depth=2, rank=4)
TASKS = ["find the red book", "find it", "return the blue book of the library, please"]
ITEMS = ["1. find(id=3) -> ok", "a", "1. find(id=3) -> ok\n2. take(id=3) -> ok, thanks"]


@pytest.fixture
def backbone() -> Backbone:
    return make_backbone(kind="full")


def with_adapter(composer: Composer) -> Composer:
    """Give the adapter an effect; it begins as 0."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in composer.lora:
            parameter.add_(0.05 * torch.randn_like(parameter))
    return composer


def test_a_batch_gives_what_one_by_one_gives(backbone: Backbone) -> None:
    composer = with_adapter(Composer(backbone, CONFIG))
    together = composer(TASKS, ITEMS)
    for number, latents in enumerate(together):
        (alone,) = composer([TASKS[number]], [ITEMS[number]])
        assert latents.shape == (3, 32)
        assert torch.allclose(latents, alone, atol=1e-5)
    assert (together[0] - together[2]).abs().max() > 1e-3  # it does read


def test_each_task_gets_its_own_memory(backbone: Backbone, bank: Bank) -> None:
    composer = with_adapter(Composer(backbone, CONFIG))
    first, second, third = list(bank)[:3]
    tasks = [(TASKS[0], (first,)), (TASKS[2], (second, third))]
    for task, latents in zip(tasks, composer.memories(tasks), strict=True):
        (alone,) = composer.memories([task])
        assert latents.shape == (3 * len(task[1]), 32)
        assert torch.allclose(latents, alone, atol=1e-5)


def test_the_compressor_follows_the_published_formula(backbone: Backbone) -> None:
    compressor = Composer(backbone, CONFIG).compressor
    hidden = torch.randn(1, 7, 32)

    def attend(latents: Tensor, context: Tensor) -> Tensor:
        heads = []
        query, key, value = (
            compressor.query(latents),
            compressor.key(context),
            compressor.value(context),
        )
        for head in range(4):  # the backbone's 4 heads, of 32 / 4 entries and not of its own 16
            mine = slice(8 * head, 8 * head + 8)
            scores = query[:, mine] @ key[:, mine].T / 8**0.5
            heads.append(scores.softmax(-1) @ value[:, mine])
        return compressor.out(torch.cat(heads, -1))

    inputs = compressor.norm_inputs(compressor.project_in(hidden[0]))
    latents = compressor.queries
    for _ in range(CONFIG.depth):
        normed = compressor.norm_latents(latents)
        latents = latents + attend(normed, torch.cat([inputs, normed]))
        inner = compressor.up(compressor.norm_ffn(latents))
        latents = latents + compressor.down(torch.nn.functional.gelu(inner))
    expected = compressor.norm_out(compressor.project_out(latents))
    found = compressor(hidden, torch.ones(1, 7, dtype=torch.bool))[0]
    assert torch.allclose(found, expected, atol=1e-5)


def test_depth_shares_its_weights_and_everything_trained_is_float32(backbone: Backbone) -> None:
    shallow, deep = (Composer(backbone, CONFIG.model_copy(update={"depth": d})) for d in (1, 8))
    assert len(list(shallow.parameters())) == len(list(deep.parameters()))
    assert {p.dtype for p in deep.parameters()} == {torch.float32}
    assert len(deep.lora) == 2 * 7 * 2  # two blocks, seven projections, two matrices


def test_latents_are_as_large_as_asked(backbone: Backbone) -> None:
    size = backbone.base.get_input_embeddings().weight.std().item()
    for scale, expected in (("unit", 1.0), ("embedding", size)):
        composer = Composer(backbone, ComposerConfig(latents=3, depth=2, scale=scale))
        (latents,) = composer(TASKS[:1], ITEMS[:1])
        assert latents.square().mean().sqrt().item() == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("recompute", [False, True])
def test_the_adapter_learns_and_the_teacher_never_sees_it(recompute: bool) -> None:
    untouched, backbone = make_backbone(), make_backbone()
    composer = with_adapter(Composer(backbone, CONFIG))
    composer.recompute = recompute
    episode = make_episode(backbone, 0)

    def states(backbone: Backbone, latents: Tensor) -> Tensor:
        row = TokenRow(episode.token_ids, episode.loss_mask)
        row.ids[2:5] = 0
        row = TokenRow(row.ids, row.supervised, latents, 2)
        return supervised_states(backbone.base, [row], recompute=recompute)

    (latents,) = composer(TASKS[:1], ITEMS[:1])
    teacher = states(backbone, latents)
    assert torch.equal(teacher, states(untouched, latents))  # bit for bit
    teacher.square().sum().backward()
    for name, parameter in composer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert all(p.grad is None for p in backbone.base.parameters())
    assert all(p.grad is None for p in backbone.student.parameters())
    found = {n: p.grad.clone() for n, p in composer.named_parameters() if p.grad is not None}
    composer.zero_grad()
    composer.recompute = False
    states(backbone, composer(TASKS[:1], ITEMS[:1])[0]).square().sum().backward()
    for name, parameter in composer.named_parameters():
        assert torch.allclose(found[name], parameter.grad, rtol=1e-3, atol=1e-3), name


def test_what_is_saved_is_what_is_loaded(backbone: Backbone, tmp_path: Path) -> None:
    composer = with_adapter(Composer(backbone, CONFIG, seed=3))
    composer.save(tmp_path)
    loaded = Composer.load(backbone, tmp_path)
    assert loaded.config == CONFIG
    for mine, other in zip(composer(TASKS, ITEMS), loaded(TASKS, ITEMS), strict=True):
        assert torch.equal(mine, other)


def test_seeds_decide_the_start(backbone: Backbone) -> None:
    def start(seed: int) -> Tensor:
        return Composer(backbone, CONFIG, seed)(TASKS[:1], ITEMS[:1])[0]

    assert torch.equal(start(1), start(1))
    assert not torch.equal(start(1), start(2))


def test_a_pretrained_composer_has_to_be_there_and_to_fit(
    backbone: Backbone, tmp_path: Path
) -> None:
    def make(init: str, **changes: int) -> Composer:
        options = {**OPTIONS, "composer_init": init, **changes}
        return make_composer(LOPDConfig(**options), backbone, 0)

    with pytest.raises(UsageError, match="composer_init=random"):
        make(str(tmp_path))
    with pytest.raises(UsageError, match="folder"):
        make("pretrained")
    make("random").save(tmp_path)
    make(str(tmp_path))
    with pytest.raises(UsageError, match="agree"):
        make(str(tmp_path), latents=4)
    weights = tmp_path / WEIGHTS_FILE
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(DataError, match=WEIGHTS_FILE):
        make(str(tmp_path))
    (tmp_path / CONFIG_FILE).write_text("{")
    with pytest.raises(DataError, match=CONFIG_FILE):
        make(str(tmp_path))
