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
    from lopd_gym.loop import AgentLoop
    from lopd_gym.run.build import checked_env, env_maker, load_backbone, model_policy
    from lopd_gym.run.evaluation import CHUNKS_PER_BATCH
    from lopd_gym.run.rollouts import play_phase, training_jobs
    from lopd_gym.tasks import TRAIN_SPLIT

    settings = play_settings(env_section(env, data), model, chat_format, changes, seed=seed)
    shown = make_console()
    ids = [task.id for task in checked_env(settings.env, TRAIN_SPLIT).tasks(TRAIN_SPLIT)]
    jobs = training_jobs(ids, seed, "bank", 0, rollouts)
    policy = model_policy(load_backbone(settings), "base", settings.sampling, settings)
    with (
        Bank.open(to, get_embedder(settings.embedder)) as bank,
        AgentLoop(
            env_maker(settings.env, TRAIN_SPLIT), policy, settings.sampling, settings.limits
        ) as loop,
        ConsoleReporter(shown).phase("play training tasks", rollouts) as phase,
    ):
        episodes = play_phase(
            loop,
            jobs,
            to / f"episodes-seed-{seed}.jsonl",
            CHUNKS_PER_BATCH * settings.limits.concurrency,
            lambda episode: phase.advance(),
            settings.max_failure_rate,
        )
        added = bank.fill(episodes)
        shown.print(f"{to}: {added} new experiences from {rollouts} rollouts, {len(bank)} in all")
