"""The ``lopd-gym`` command: registers the commands and turns errors into one sentence.

Exit codes: 0 done, 1 failed, 2 wrong use.
"""

from __future__ import annotations

import errno
import os
import sys

import typer
from rich.console import Console

from lopd_gym.cli import bank, data, envs, learners, sandbox
from lopd_gym.cli.bank_build import build_command
from lopd_gym.cli.compare import compare_command
from lopd_gym.cli.evaluate import evaluate_command
from lopd_gym.cli.export import export_command
from lopd_gym.cli.report import report_command
from lopd_gym.cli.run import run_command
from lopd_gym.cli.show import show_command
from lopd_gym.errors import LopdGymError, UsageError

app = typer.Typer(
    name="lopd-gym",
    help="Post-train language-model agents in verified environments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run")(run_command)
app.command("eval")(evaluate_command)
app.command("compare")(compare_command)
app.command("show")(show_command)
app.command("report")(report_command)
app.command("export")(export_command)
app.add_typer(envs.app, name="envs")
app.add_typer(learners.app, name="learners")
bank.app.command("build")(build_command)
app.add_typer(bank.app, name="bank")
app.add_typer(data.app, name="data")
app.add_typer(sandbox.app, name="sandbox")


def main() -> None:
    """Run the command line."""
    debug = "--debug" in sys.argv
    if debug:
        sys.argv.remove("--debug")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except LopdGymError as err:
        _stop(str(err), 2 if isinstance(err, UsageError) else 1, debug)
    except KeyboardInterrupt:
        _stop("Interrupted.", 1, debug)
    except MemoryError:
        _stop("Out of memory: lower limits.concurrency or the model's size.", 1, debug)
    except OSError as err:
        _stop(_in_words(err), 1, debug)


def _in_words(err: OSError) -> str:
    if err.errno == errno.ENOSPC:
        return (
            "The disk is full: free some space; what is finished is kept, and a run or a "
            "comparison goes on with --resume."
        )
    where = f": {err.filename}" if err.filename else ""
    return f"{err.strerror or err}{where}."


def _stop(message: str, code: int, debug: bool) -> None:
    if debug:
        raise
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    console.print(f"Error: {message}", style="red")
    sys.exit(code)


if __name__ == "__main__":
    main()
