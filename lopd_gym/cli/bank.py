"""`lopd-gym bank`: look into an experience bank, and carry it around.

`bank build`, which plays episodes, lives elsewhere and registers itself on `app`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lopd_gym.bank import Bank, BankStats, Hit

app = typer.Typer(no_args_is_help=True, help="Look into an experience bank, and carry it around.")

BankFolder = Annotated[Path, typer.Argument(help="The bank's folder.", show_default=False)]


@app.command()
def search(
    bank_folder: BankFolder,
    query: Annotated[str, typer.Argument(help="A task text.", show_default=False)],
    k: Annotated[int, typer.Option("-k", min=1, help="How many experiences.")] = 3,
    env: Annotated[str | None, typer.Option(help="Only this environment's.")] = None,
) -> None:
    """Show the experiences whose task is most similar to a text."""
    with _open(bank_folder) as bank:
        _show_hits(bank.search(query, k, env=env, allow_same_instruction=True))


@app.command()
def stats(bank_folder: BankFolder) -> None:
    """Count what a bank holds."""
    with _open(bank_folder) as bank:
        _show_stats(bank_folder, bank.stats())


@app.command("export")
def export_(
    bank_folder: BankFolder,
    file: Annotated[Path, typer.Argument(help="The JSON-lines file to write.")],
) -> None:
    """Write all experiences to a JSON-lines file."""
    with _open(bank_folder) as bank:
        typer.echo(f"{bank.export_jsonl(file)} experiences written to {file}.")


@app.command("import")
def import_(
    bank_folder: BankFolder,
    file: Annotated[Path, typer.Argument(help="The JSON-lines file to read.")],
    embedder: Annotated[
        str | None,
        typer.Option(
            help="For a new bank: hashing (the default) or sentence-transformers:NAME_OR_FOLDER.",
        ),
    ] = None,
) -> None:
    """Add the experiences of a JSON-lines file; evaluation tasks are refused."""
    from lopd_gym.bank import Bank

    with Bank.open(bank_folder, embedder) as bank:
        added = bank.import_jsonl(file)
        typer.echo(f"{added} new experiences; the bank in {bank_folder} now holds {len(bank)}.")


def _open(folder: Path) -> Bank:
    from lopd_gym.bank import Bank

    return Bank.open(folder, create=False)


def _show_hits(hits: list[Hit]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not hits:
        typer.echo("The bank holds no such experience.")
        return
    table = Table(show_lines=True)
    table.add_column("similarity", justify="right")
    table.add_column("environment, task")
    table.add_column("experience", ratio=1)
    for hit in hits:
        found = hit.experience
        where = Text(f"{found.env}\n{found.task_id}\nscore {found.score:.2f}")
        table.add_row(f"{hit.similarity:.3f}", where, Text(found.text))
    Console().print(table)


def _show_stats(folder: Path, stats: BankStats) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("environment")
    table.add_column("group")
    for column in ("experiences", "tasks", "mean trace (characters)"):
        table.add_column(column, justify="right")
    for row in stats.groups:
        mean = f"{row.mean_trace_chars:.0f}"
        table.add_row(Text(row.env), Text(row.group), str(row.experiences), str(row.tasks), mean)
    console = Console()
    console.print(table)
    summary = (
        f"{stats.experiences} experiences in {folder}; embedder {stats.embedder} "
        f"({stats.dim} dimensions); {stats.indexed} of {stats.instructions} distinct task texts "
        "indexed."
    )
    console.print(Text(summary), soft_wrap=True)
