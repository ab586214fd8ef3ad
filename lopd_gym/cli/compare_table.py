"""A comparison as tables on the terminal, and as a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lopd_gym.cli.table import interval, signed
from lopd_gym.compare.result import SHARES, Comparison, LearnerResult


def print_comparison(found: Comparison, console: Console) -> None:
    """Print final scores, paired differences and verdicts, efficiency, cost and behaviour."""
    console.print(
        f"{found.env}, split {found.split} (data {found.data_hash[:12] or 'unhashed'}), "
        f"{found.tasks} tasks, seeds {', '.join(map(str, found.seeds))}, model {found.model}, "
        f"{found.budget} rollouts each",
        markup=False,
    )
    console.print(_scores(found))
    console.print(_pairs(found))
    console.print(_efficiency(found))
    console.print(_behaviour(found))
    for labels, modes, words in found.verdicts:
        console.print(f"{', '.join(labels)} ({' and '.join(modes)}): {words}", markup=False)
    for note in found.notes:
        console.print(f"note: {note}", markup=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _scores(found: Comparison) -> Table:
    modes = list(found.base)
    columns = [f"success, {m}" for m in modes] + [f"score, {m}" for m in modes]
    table = _table("final students, 95 % intervals over seeds and tasks", "learner", *columns)
    blank = [""] * len(modes)
    table.add_row("do nothing", interval(found.nothing), *blank[1:], *blank)
    table.add_row("base", *(interval(found.base[m]) for m in modes), *blank)
    for x in found.learners:
        cells = [interval(x.success[m]) for m in modes] + [interval(x.score[m]) for m in modes]
        table.add_row(_plain(x.label), *cells)
    return table


def _pairs(found: Comparison) -> Table:
    columns = ("mode", "difference", "p (Holm)", "McNemar", "won/lost/tied", "detectable")
    table = _table(f"success minus that of {_plain(found.reference)}, paired", "learner", *columns)
    for x in found.pairs:
        table.add_row(
            _plain(x.label),
            x.mode,
            signed(x.difference),
            f"{x.p_holm:.3f}",
            f"{x.p_mcnemar:.3f}",
            f"{x.won}/{x.lost}/{x.tied}",
            f"{x.detectable:.2f}",
        )
    return table


def _efficiency(found: Comparison) -> Table:
    shares = [f"at {share:.0%}" for share in SHARES]
    columns = (*shares, "rollouts to reference", "tokens", "minutes", "MiB")
    table = _table("success (sampled) over the budget, and cost per run", "learner", *columns)
    for x in found.learners:
        reached = "never" if x.rollouts_to_reference is None else str(x.rollouts_to_reference)
        cost = (f"{x.tokens:,.0f}", f"{x.minutes:.1f}", f"{x.memory_mib:.0f}")
        table.add_row(_plain(x.label), *(f"{v:.2f}" for v in x.at_share), reached, *cost)
    return table


def _behaviour(found: Comparison) -> Table:
    columns = ("turns", "calls", "parse errors", "tokens", "entropy")
    table = _table("how final students play (sampled), per episode", "learner", *columns)
    for x in found.learners:
        b = x.behaviour
        cells = (b.turns, b.calls, b.parse_errors, b.response_tokens, b.entropy)
        table.add_row(_plain(x.label), *(f"{value:.2f}" for value in cells))
    return table


def _plain(text: str) -> str:
    """Keep brackets in a label from being read as markup."""
    return text.replace("[", r"\[")


def write_csv(found: Comparison, path: Path) -> None:
    """Write one line for each learner and mode."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8", newline="") as out:
        rows = [_csv_row(found, x, mode) for x in found.learners for mode in found.base]
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    temporary.replace(path)


def _csv_row(found: Comparison, x: LearnerResult, mode: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "learner": x.label,
        "mode": mode,
        "success": x.success[mode].mean,
        "success_low": x.success[mode].low,
        "success_high": x.success[mode].high,
        "score": x.score[mode].mean,
        "rollouts": x.rollouts,
        "rollouts_to_reference": x.rollouts_to_reference,
        "tokens": x.tokens,
        "minutes": x.minutes,
        "memory_mib": x.memory_mib,
    }
    pairs = (p for p in found.pairs if (p.label, p.mode) == (x.label, mode))
    pair = next(pairs, None)
    difference = None if pair is None else pair.difference
    for name, value in zip(("mean", "low", "high"), ("", "_low", "_high"), strict=True):
        row[f"difference{value}"] = getattr(difference, name, None)
    for name in ("p_holm", "p_mcnemar", "verdict"):
        row[name] = getattr(pair, name, None)
    return row
