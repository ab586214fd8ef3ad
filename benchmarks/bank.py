"""Measure the experience bank: insert and search at 50,000 entries, recall against exact search.

Targets: a search under 1 ms, recall@10 of at least 0.98. The texts are task-like sentences made
here, in domains with words of their own: nothing needs a download.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.progress import track

from benchmarks.report import report
from lopd_gym.bank import Bank, Experience, Hit

QUERIES = 1_000
EXACT = 100
"""Queries whose answers are compared with exact search."""

Measured = dict[str, tuple[float, float | None]]

VERBS = """
add approve archive assign book cancel change check close copy delete extend find fix issue list
lock mark merge move open pay print raise refund remove rename repeat send ship split start stop
swap transfer unlock update verify void withdraw
"""
THINGS = """
account address alarm appointment article asset badge bed bill booking branch budget camera case
claim class contract course crew deal delivery desk device driver event exam ferry fine flight
form gate grant guest invoice item key lab lease lesson licence loan locker machine meal meeting
member menu note offer order parcel patient permit plan plot policy pump quote record rent
report request road room route sample seat shift signal stock store student supplier table task
team ticket tour track trip truck unit vaccine visit ward
"""
QUALITIES = """
active blocked broken cheap damaged daily dormant empty expired first frozen heavy hidden idle
large last late local lost monthly new old open overdue paid pending planned private quiet rare
ready remote shared short spare stale unpaid urgent valid weekly
"""
NAMES = """
Ada Ben Cleo Dora Emil Fay Gus Hana Ivo Jana Karl Lena Milo Nora Otto Pia Rosa Sven Tess Uwe
"""


def make_tasks(count: int, domains: int, seed: int) -> list[str]:
    """Return task texts of one to four steps, each from a domain with words of its own."""
    generator = np.random.default_rng(seed)
    parts = [words.split() for words in (VERBS, THINGS, QUALITIES)]
    vocabularies: list[list[list[str]]] = [
        [generator.choice(words, 8, replace=False).tolist() for words in parts]
        for _ in range(domains)
    ]
    names = NAMES.split()

    def one(words: Sequence[str]) -> str:
        return words[int(generator.integers(len(words)))]

    def step(verbs: list[str], things: list[str], qualities: list[str]) -> str:
        number = generator.integers(100, 10_000)
        return (
            f"{one(verbs)} the {one(qualities)} {one(things)} X{number} of {one(names)} if the "
            f"{one(things)} is {one(qualities)}"
        )

    def task() -> str:
        words = vocabularies[int(generator.integers(domains))]
        return ". ".join(step(*words).capitalize() for _ in range(generator.integers(1, 5)))

    return [task() for _ in range(count)]


def measure(folder: Path, entries: int, domains: int) -> Measured:
    """Fill a bank, search it, and return times and recall."""
    tasks = make_tasks(entries + QUERIES, domains, seed=0)
    trace = '1. find(name="Ada") -> id=17\n2. close(id=17) -> status=done'
    with Bank.open(folder) as bank:
        store_s = index_s = 0.0
        for start in track(range(0, entries, 1_000), description="insert"):
            batch = [
                Experience("bench", "train", f"t{i}", "", tasks[i], trace, 1.0)
                for i in range(start, min(start + 1_000, entries))
            ]
            began = time.perf_counter()
            bank.add(batch)
            middle = time.perf_counter()
            bank.search("anything", 1)  # brings the index up to date
            store_s += middle - began
            index_s += time.perf_counter() - middle
        found, search_s = _timed(bank, tasks[entries:])
        exact = [bank.search_exact(query, 10) for query in tasks[entries : entries + EXACT]]
    began = time.perf_counter()
    with Bank.open(folder) as bank:
        bank.search("anything", 1)
        reopen_s = time.perf_counter() - began
    recall = [_recall(f, e) for f, e in zip(found, exact, strict=False)]
    return {
        "search, ms (median)": (1e3 * float(np.median(search_s)), 1.0),
        "search, ms (95th percentile)": (1e3 * float(np.quantile(search_s, 0.95)), None),
        "recall@10": (float(np.mean(recall)), 0.98),
        "insert into the store, ms per entry": (1e3 * store_s / entries, None),
        "insert into the index, ms per entry": (1e3 * index_s / entries, None),
        "open a saved bank, s": (reopen_s, None),
        "size on disk, MB": (sum(p.stat().st_size for p in folder.iterdir()) / 1e6, None),
    }


def _timed(bank: Bank, queries: Sequence[str]) -> tuple[list[list[Hit]], list[float]]:
    found, seconds = [], []
    for query in queries:
        began = time.perf_counter()
        found.append(bank.search(query, 10))
        seconds.append(time.perf_counter() - began)
    return found, seconds


def _recall(found: Sequence[Hit], exact: Sequence[Hit]) -> float:
    """Share of the hits that are as near as the exact tenth; equally near ones are equally good."""
    tenth = exact[-1].similarity
    return sum(hit.similarity >= tenth for hit in found) / len(exact)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--domains", type=int, default=191, help="As many as EnvScaler has.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder), options.entries, options.domains)
    report(f"experience bank of {options.entries:,}", measured)


if __name__ == "__main__":
    main()
