"""``lopd-gym bank build``: play training tasks with a model and keep its successes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lopd_gym.cli.console import console as make_console
from lopd_gym.cli.options import (
    DataOption,
    EnvOption,
    FormatOption,
    ModelOption,
    SetOption,
    env_section,
    play_settings,
)


def build_command(
    env: EnvOption,
    to: Annotated[Path, typer.Option("--to", help="Folder of the bank; it may exist.")],
    model: ModelOption = "tiny",
    data: DataOption = None,
    rollouts: Annotated[int, typer.Option("--rollouts", min=1, help="Episodes to play.")] = 192,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the episodes.")] = 0,
    chat_format: FormatOption = None,
    changes: SetOption = None,
) -> None:
    """Fill a bank with the successes of a model on training tasks."""
    from lopd_gym.bank import Bank, get_embedder
    from lopd_gym.cli.progress import ConsoleReporter
    from lopd_gym.run.build import checked_env, load_backbone
    from lopd_gym.run.rollouts import play_for_bank
    from lopd_gym.tasks import TRAIN_SPLIT

    settings = play_settings(env_section(env, data), model, chat_format, changes, seed=seed)
    shown = make_console()
    tasks = checked_env(settings.env, TRAIN_SPLIT).tasks(TRAIN_SPLIT)
    backbone, path = load_backbone(settings), to / f"episodes-seed-{seed}.jsonl"
    with Bank.open(to, get_embedder(settings.embedder)) as bank:
        reporter = ConsoleReporter(shown)
        episodes = play_for_bank(backbone, tasks, rollouts, settings, path, reporter)
        added = bank.fill(episodes, settings.bank_min_score)
        shown.print(f"{to}: {added} new experiences from {rollouts} rollouts, {len(bank)} in all")
