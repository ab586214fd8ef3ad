"""``python -m lopd_envs.bfcl EPISODES...``: the leaderboard's table from recorded episodes.

Each file is one that ``lopd-gym eval --env bfcl --out FOLDER`` writes (``FOLDER/greedy.jsonl``).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lopd_envs.bfcl.corpus import CATEGORIES, load_category
from lopd_envs.bfcl.leaderboard import Tally, groups
from lopd_envs.bfcl.wheel import Wheel, load_wheel
from lopd_gym.episode import read_episodes
from lopd_gym.errors import LopdGymError, UsageError


def main() -> None:
    """Print the table, or one sentence that says what is wrong."""
    parser = argparse.ArgumentParser("python -m lopd_envs.bfcl", description=__doc__)
    parser.add_argument("episodes", nargs="+", type=Path, help="Files of episodes.")
    parser.add_argument("--data", type=Path, help="Folder that holds the package bfcl_eval.")
    options = parser.parse_args()
    try:
        wheel = load_wheel(options.data and options.data.resolve())
        print_table(wheel, read_tallies(wheel, options.episodes))
    except LopdGymError as err:
        sys.exit(f"Error: {err}")


def read_tallies(wheel: Wheel, paths: Iterable[Path]) -> dict[str, Tally]:
    """Count the passes of each category.

    Raises:
        UsageError: A file is missing, holds another release, or plays an entry a second time.
    """
    label = f"bfcl-{wheel.release.version}"
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for path in paths:
        if not path.is_file():
            raise UsageError(f"Expected a file of episodes at {path}, found none.")
        for episode in read_episodes(path):
            if not episode.env.startswith(label):
                raise UsageError(f"{path}: expected episodes of {label}, found {episode.env}.")
            known = scores[episode.group]
            if episode.task_id in known:
                raise UsageError(
                    f"{path}: expected each entry once, found {episode.task_id} again."
                )
            if episode.outcome.score is not None:
                known[episode.task_id] = episode.outcome.score
    return {name: Tally(int(sum(s.values())), len(s)) for name, s in scores.items() if s}


def print_table(wheel: Wheel, tallies: dict[str, Tally]) -> None:
    """Print categories, and the groups whose categories were all played in full."""
    sizes = {name: len(load_category(wheel, name)) for name in tallies}
    whole = {name: tally for name, tally in tallies.items() if tally.tasks == sizes[name]}
    title = f"bfcl-{wheel.release.version} (data {wheel.hash[:12]})"
    table = Table("category", "passed", "entries", "accuracy", title=title, title_justify="left")
    for name in CATEGORIES:
        if name in tallies:
            tally = tallies[name]
            count = f"{tally.tasks}" if name in whole else f"{tally.tasks} of {sizes[name]}"
            table.add_row(name, f"{tally.passed}", count, f"{tally.accuracy:.2%}")
    table.add_section()
    for name, value in groups(wheel.release.prefix, whole).items():
        table.add_row(name, "", "", "incomplete" if value is None else f"{value:.2%}")
    Console().print(table)


if __name__ == "__main__":
    main()
