"""``lopd-gym learners``: what it says about each learner, and that it says it literally."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from rich.console import Console
from typer.testing import CliRunner

from lopd_gym.cli.learners import app, in_words, meanings
from lopd_gym.learner import Learner, Needs
from lopd_gym.registry import LEARNERS, load, names

Said = Callable[..., str]


@pytest.fixture
def said(monkeypatch: Any) -> Callable[..., str]:
    """What a command prints, without the table's frame and its gaps; no cell is broken up."""
    wide = partial(Console, highlight=False, width=1_000)
    monkeypatch.setattr("lopd_gym.cli.learners.make_console", wide)

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        return " ".join(done.output.replace("│", " ").split())

    return said


def test_the_list_says_what_each_needs(said: Said) -> None:
    printed = said("list")
    for name in names(LEARNERS):
        assert name in printed
    assert "4 episodes of a task in each" in printed


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(), "1 episode of a task"),
        (Needs(episodes_per_task=8), "8 episodes of a task in each step"),
        (
            Needs(bank=True, bank_rollouts=48, growing_bank=True),
            "1 episode of a task; a bank of the base's own successes, from 48 rollouts; successes "
            "of training enter the bank too",
        ),
        (
            Needs(4, bank=True, bank_rollouts=9, solved_tasks=True),
            "4 episodes of a task in each step; a bank of the base's own successes, from 9 "
            "rollouts; trains only on tasks that the bank solves",
        ),
    ],
)
def test_needs_in_words(needs: Needs, words: str) -> None:
    assert in_words(needs) == words


@pytest.mark.parametrize("name", names(LEARNERS))
def test_every_option_of_every_learner_is_shown_and_explained(name: str, said: Said) -> None:
    learner = load(LEARNERS, name)
    explained = meanings(learner.config_type)
    assert [option for option, meaning in explained.items() if not meaning] == []
    printed = said("show", name)
    assert in_words(learner.needs(learner.config_type())) in printed
    for option in learner.config_type.model_fields:
        assert option in printed


def test_values_of_other_presets_are_shown_where_they_differ(said: Said) -> None:
    printed = said("show", "grpo")
    assert "lr 1e-05 Learning rate of AdamW. tiny: 0.001" in printed
    assert "clip_high 0.2 Ratios may rise by this much; 0.28 in DAPO. dapo: 0.28" in printed
    assert "null for no bound" in printed


class Base(BaseModel):
    """Options of both.

    Attributes:
        size: How [large]
            it is.
        style: Overwritten below.
    """

    size: int = 3
    style: str = "[/] [bold]x"


class Config(Base):
    """Options of the odd one.

    Attributes:
        style: What it ``looks`` like; None for nothing.
    """

    lines: str = "a\n[red]b"


class Odd(Learner):
    """One whose words look like markup."""

    name, summary, paper = "odd", "Is [bold]odd[/bold].", "[paper]"
    config_type = Config
    presets: ClassVar[dict[str, dict[str, Any]]] = {"first": {"size": 4}, "second": {}}


def test_nothing_is_read_as_markup(said: Said, monkeypatch: Any) -> None:
    monkeypatch.setattr("lopd_gym.registry.load", lambda group, name: Odd)
    printed = said("show", "odd")
    assert "odd: Is [bold]odd[/bold]. [paper]" in printed
    assert "value (first)" in printed
    assert "size 4 How [large] it is. second: 3" in printed
    assert "style [/] [bold]x What it looks like; null for nothing." in printed
    assert r'lines "a\n[red]b"' in printed
    assert "Is [bold]odd[/bold]." in said("list")
