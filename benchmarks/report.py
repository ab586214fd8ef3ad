"""How benchmarks print: a table for people, one JSON line for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def report(title: str, values: Mapping[str, tuple[float, float | None]]) -> None:
    """Print measured values, each with its target (None where there is none)."""
    table = Table("measured", "value", "target", title=title, title_justify="left")
    for name, (value, target) in values.items():
        table.add_row(name, f"{value:,.3g}", "" if target is None else f"{target:,.3g}")
    Console().print(table)
    print(json.dumps({"benchmark": title, **{name: value for name, (value, _) in values.items()}}))
