"""The engine: what it samples is what a full forward pass over the same tokens would say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lopd_gym.episode import GREEDY, Sampling
from lopd_gym.errors import UsageError
from lopd_gym.policy import engine as engine_module
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Completion, Prompt
from lopd_gym.policy.engine import MultiTurnEngine
from lopd_gym.policy.general import GeneralDecoder
from lopd_gym.policy.lean import LeanDecoder, lean_fits
from tests.lopd_gym.policy.models import FAMILIES, make_backbone

T1 = Sampling(temperature=1.0, top_p=1.0, top_k=0)
DECODERS = [(family, False) for family in FAMILIES if family != "olmo3"]
DECODERS += [(family, True) for family in FAMILIES]


def perturb(backbone: Backbone, size: float = 0.05) -> None:
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in backbone.student_parameters():
            parameter.add_(size * torch.randn_like(parameter))
    backbone.mark_updated()


def make_engine(backbone: Backbone, general: bool = False, **options) -> MultiTurnEngine:
    decoder = GeneralDecoder(backbone, options.get("weights", "student")) if general else None
    return MultiTurnEngine(backbone, decoder=decoder, **{"sampling": T1, **options})


def tokens(rng: np.random.Generator, count: int) -> list[int]:
    return rng.integers(5, 300, count).tolist()


class Play:
    """Drives an engine through a scripted, ragged schedule and keeps every conversation."""

    def __init__(self, engine: MultiTurnEngine) -> None:
        self.engine = engine
        self.rng = np.random.default_rng(0)
        self.open: dict[int, tuple[list[int], list[float | None]]] = {}
        self.finished: list[tuple[list[int], list[float | None]]] = []
        self.turns = 0

    def begin(self, length: int, limit: int) -> None:
        ids = tokens(self.rng, length)
        prompt = Prompt(ids, length)
        slot = self.engine.open(prompt, seed=self.turns + length, max_new_tokens=limit)
        assert slot not in self.open
        self.open[slot] = (list(ids), [None] * length)

    def take(self, completion: Completion) -> None:
        ids, logprobs = self.open[completion.slot]
        ids += completion.ids
        logprobs += completion.logprobs
        self.turns += 1
        if self.turns % 4 == 0:
            self.engine.close(completion.slot)
            self.finished.append(self.open.pop(completion.slot))
            if self.turns < 24:
                self.begin(3 + 5 * (self.turns % 3), 4)
            return
        new = tokens(self.rng, 1 + 7 * self.turns % 13)
        ids += new
        logprobs += [None] * len(new)
        self.engine.extend(completion.slot, new, max_new_tokens=1 + self.turns % 5)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for completion in self.engine.step():
                self.take(completion)

    def check(self, model) -> int:
        """Compare all recorded log-probabilities with full forward passes; returns how many."""
        compared = 0
        for ids, logprobs in [*self.finished, *self.open.values()]:
            with torch.no_grad():
                full = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            for position, logprob in enumerate(logprobs):
                if logprob is not None:
                    expected = full[position - 1, ids[position]].item()
                    assert logprob == pytest.approx(expected, abs=2e-5)
                    compared += 1
        return compared


@pytest.mark.parametrize(("family", "general"), DECODERS)
def test_logprobs_are_those_of_a_full_forward(family: str, general: bool):
    backbone = make_backbone(family)
    perturb(backbone)
    play = Play(make_engine(backbone, general))
    for length, limit in ((2, 3), (19, 5), (7, 2), (33, 6), (11, 1)):
        play.begin(length, limit)
    play.run(60)
    assert play.turns > 24
    assert play.check(backbone.student) > 100


def test_a_row_mix_up_would_be_caught():
    backbone = make_backbone()
    play = Play(make_engine(backbone))
    for length in (5, 9, 14):
        play.begin(length, 4)
    play.run(6)
    first, second, *_ = play.open.values()
    first[1][-1], second[1][-1] = -3.5, -4.5
    with pytest.raises(AssertionError):
        play.check(backbone.student)


@pytest.mark.parametrize("general", [False, True])
def test_rows_between_which_others_have_left_stay_apart(general: bool):
    backbone = make_backbone()
    play = Play(make_engine(backbone, general, stop_ids=()))
    for length in (5, 12, 9, 20, 3):
        play.begin(length, 30)
    play.run(3)
    for slot in (0, 2, 3):
        play.engine.close(slot)
        del play.open[slot]
    play.run(27)
    assert play.turns == 2
    assert play.check(backbone.student) == 60


def test_each_family_gets_the_decoder_it_should():
    for family in FAMILIES:
        assert lean_fits(make_backbone(family).base) == (family != "olmo3")
    engine = make_engine(make_backbone("olmo3"))
    assert isinstance(engine._decoder, GeneralDecoder)
    assert isinstance(make_engine(make_backbone())._decoder, LeanDecoder)


@pytest.mark.parametrize("general", [False, True])
def test_long_prompts_are_prefilled_in_chunks(general: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(engine_module, "PREFILL_COLUMNS", 64)
    monkeypatch.setattr(engine_module, "PREFILL_TOKENS", 128)
    backbone = make_backbone()
    play = Play(make_engine(backbone, general))
    for length in (700, 3, 300, 64, 65, 66):
        play.begin(length, 3)
    play.run(5)
    assert play.check(backbone.student) > 12


@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_sampling_uses_updated_weights_in_open_conversations_too(kind: str, general: bool):
    backbone = make_backbone(kind=kind)
    engine = make_engine(backbone, general)
    play = Play(engine)
    play.begin(12, 50)
    engine.step()
    before = engine._open[0].logprobs[0]
    perturb(backbone, 0.2)
    engine.step()
    ids, logprobs = engine._open[0].ids, engine._open[0].logprobs
    with torch.no_grad():
        full = backbone.student(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert logprobs[1] == pytest.approx(full[12, ids[13]].item(), abs=2e-5)
    assert before != pytest.approx(full[11, ids[12]].item(), abs=1e-3)


def test_the_base_does_not_move_with_the_student():
    backbone = make_backbone()
    perturb(backbone, 0.3)
    play = Play(make_engine(backbone, weights="base"))
    play.begin(9, 6)
    play.run(8)
    assert play.check(backbone.base) > 6


def test_draws_do_not_depend_on_batch_mates():
    backbone = make_backbone()
    rng = np.random.default_rng(3)
    prompts = [Prompt(tokens(rng, 4 + 3 * i), 1) for i in range(5)]

    def play(seeds: list[int]) -> list[list[int]]:
        engine = make_engine(backbone, stop_ids=())
        for seed in seeds:
            engine.open(prompts[seed], seed=seed, max_new_tokens=8)
        return [completion.ids for _ in range(8) for completion in engine.step()]

    assert play([0, 1, 2, 3, 4]) == [play([seed])[0] for seed in range(5)]


def test_the_same_calls_give_the_same_tokens():
    def play() -> list:
        run = Play(make_engine(make_backbone(), sampling=Sampling()))
        for length in (5, 9, 14):
            run.begin(length, 4)
        run.run(30)
        return run.finished

    assert play() == play()


@pytest.mark.parametrize("general", [False, True])
def test_latents_replace_the_embeddings_of_their_span(general: bool):
    """Embeddings of known tokens, given as latents, are the same as the tokens themselves."""
    backbone = make_backbone()
    ids = tokens(np.random.default_rng(5), 20)
    span = backbone.base.get_input_embeddings()(torch.tensor(ids[6:11]))
    dummy = [*ids[:6], *[0] * 5, *ids[11:]]
    by_ids, by_latents, by_dummies = (
        complete(make_engine(backbone, general, sampling=GREEDY), prompt)
        for prompt in (Prompt(ids, 1), Prompt(dummy, 1, span, 6), Prompt(dummy, 1))
    )
    assert by_latents.ids == by_ids.ids
    assert by_latents.logprobs == pytest.approx(by_ids.logprobs, abs=1e-6)
    assert by_dummies.logprobs != pytest.approx(by_ids.logprobs, abs=1e-3)


def test_latents_may_cross_prefill_chunks(monkeypatch: pytest.MonkeyPatch):
    backbone = make_backbone()
    ids = tokens(np.random.default_rng(6), 30)
    span = backbone.base.get_input_embeddings()(torch.tensor(ids[6:20]))
    prompt = Prompt([*ids[:6], *[0] * 14, *ids[20:]], 1, span, 6)
    whole = complete(make_engine(backbone, sampling=GREEDY), prompt)
    monkeypatch.setattr(engine_module, "PREFILL_COLUMNS", 4)
    pieces = complete(make_engine(backbone, sampling=GREEDY), prompt)
    assert pieces.ids == whole.ids
    assert pieces.logprobs == pytest.approx(whole.logprobs, abs=1e-5)


def complete(engine: MultiTurnEngine, prompt: Prompt) -> Completion:
    engine.open(prompt, seed=0, max_new_tokens=5)
    return next(c for _ in range(5) for c in engine.step())


def test_a_turn_ends_at_a_stop_id_or_at_its_limit():
    backbone = make_backbone()
    everything = make_engine(backbone, stop_ids=range(320))
    assert not complete(everything, Prompt([7, 8], 1)).cut_off
    nothing = complete(make_engine(backbone, stop_ids=()), Prompt([7, 8], 1))
    assert nothing.cut_off
    assert len(nothing.ids) == len(nothing.logprobs) == 5


def test_slots_are_reused_and_the_cache_is_freed_when_all_are_closed():
    engine = make_engine(make_backbone(), stop_ids=())
    for seed in range(3):
        engine.open(Prompt([7, 8, 9], 1), seed=seed, max_new_tokens=2)
    engine.step()
    engine.close(1)
    assert engine.open(Prompt([7], 1), seed=9, max_new_tokens=2) == 1
    for slot in range(3):
        engine.close(slot)
    assert engine._decoder._keys == []
    assert engine.open(Prompt([7], 1), seed=9, max_new_tokens=2) == 0


def test_wrong_use_is_refused():
    engine = make_engine(make_backbone())
    with pytest.raises(UsageError, match="at least one token"):
        engine.open(Prompt([], 0), seed=0, max_new_tokens=3)
    slot = engine.open(Prompt([7], 1), seed=0, max_new_tokens=3)
    with pytest.raises(UsageError, match="in a turn"):
        engine.extend(slot, [8], max_new_tokens=3)
    assert engine.step() is not None
    assert make_engine(make_backbone()).step() == []


def test_a_student_in_training_with_checkpointing_generates_the_same():
    backbone = make_backbone("olmo3")
    calm = complete(make_engine(backbone, sampling=GREEDY), Prompt([7, 8, 9], 1))
    backbone.student.activation_checkpointing_enable()
    backbone.student.train()
    busy = complete(make_engine(backbone, sampling=GREEDY), Prompt([7, 8, 9], 1))
    assert busy.ids == calm.ids
    assert backbone.student.training
