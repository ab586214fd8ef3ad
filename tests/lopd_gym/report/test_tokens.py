"""``lopd-gym report --tokens``: a real run of the tiny policy, and how tokens become text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lopd_learners.lopd import LOPD

from lopd_gym.cli.main import main
from lopd_gym.errors import UsageError
from lopd_gym.learner import Learner
from lopd_gym.report.episode_view import MessageView, Token
from lopd_gym.report.phases import read_chosen
from lopd_gym.report.run_page import run_page
from lopd_gym.report.tokens import taught_step, token_texts
from tests.lopd_gym.report.page import Page
from tests.lopd_gym.report.runs import unfinished_run
from tests.lopd_gym.run.test_run import new_run

SMALL = ("rollouts=48", "learner.bank_rollouts=32", "evaluation.tasks=2", "evaluation.greedy=false")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    new_run(path, *SMALL).go()
    return path


def messages(view: object) -> Iterator[MessageView]:
    yield from (m for m in getattr(view, "messages", ()) if isinstance(m, MessageView))


def test_the_last_step_meets_the_weights_that_sampled_it(run: Path) -> None:
    taught = taught_step(run, 4)
    assert (taught.step, taught.checkpoint) == (2, 1)
    assert len(taught.views) == 4
    for view in taught.views:
        episode = read_chosen(run, "train", [view.number])[view.number]
        assert 8 <= view.number < 16
        assert view.task_id == episode.task_id
        tokens = [token for m in messages(view) for token in m.tokens]
        assert len(tokens) == episode.sampled_tokens
        drawn = episode.logprobs[episode.loss_mask]  # at temperature 0.7, over the likeliest 20
        for token, logprob in zip(tokens, drawn, strict=True):
            if logprob > -1e-4:
                assert token.student > -0.2
        assert "Example steps" in view.teacher_context


def test_a_page_colours_what_was_sampled(run: Path) -> None:
    taught = taught_step(run, 2)
    page = Page(run_page(run, taught))
    spans = [a for a in page.find("span") if (a.get("class") or "").startswith("t a")]
    tokens = [token for view in taught.views for m in messages(view) for token in m.tokens]
    legend = 3
    assert [a["class"] for a in spans[legend:]] == [f"t a{token.level}" for token in tokens]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert "training step 2, judged by the checkpoint after step 1" in page.words


def test_a_run_that_has_not_trained_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has trained no step yet"):
        taught_step(unfinished_run(tmp_path / "run"), 2)


def test_a_learner_without_a_teacher_says_so(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LOPD, "token_view", Learner.token_view)
    monkeypatch.setattr(sys, "argv", ["lopd-gym", "report", str(run), "--tokens", "2"])
    with pytest.raises(SystemExit):
        main()
    assert "leave --tokens out" in capsys.readouterr().err


def test_colour_follows_the_advantage() -> None:
    levels = [Token("x", q, -3.0).level for q in (-9.0, -5.0, -4.0, -3.1, -3.0, -2.5, -2.0, 0.0)]
    assert levels == [-4, -4, -2, 0, 0, 1, 2, 4]


@given(st.text(max_size=40))
def test_the_texts_of_byte_tokens_join_to_the_whole(text: str) -> None:
    ids = list(text.encode("utf-8"))

    def decode(part: list[int]) -> str:
        return bytes(part).decode("utf-8", "replace")

    texts = token_texts(ids, decode)
    assert len(texts) == len(ids)
    assert "".join(texts) == text
