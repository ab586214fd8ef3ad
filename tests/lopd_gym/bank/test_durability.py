"""A killed writer loses nothing that it reported, and readers work beside a writer."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

from lopd_gym.bank import Bank
from tests.lopd_gym.bank.helpers import experience

WRITER = """
import sys
from lopd_gym.bank import Bank
from tests.lopd_gym.bank.helpers import experience
bank = Bank.open(sys.argv[1])
for number in range(len(bank), 100_000):
    bank.add([experience(number)])
    if number % 7 == 0:
        bank.search("Cancel the parcel", 3)
        bank.save_index()
    print(number + 1, flush=True)
"""
ROOT = Path(__file__).resolve().parents[3]


def test_a_writer_killed_at_any_moment_leaves_a_whole_bank(tmp_path: Path) -> None:
    reported = 0
    for more in (1, 23, 58, 90):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                reported = int(line)
                if reported >= more + 10:
                    writer.send_signal(signal.SIGKILL)
                    break
        with sqlite3.connect(tmp_path / "bank.sqlite") as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        with Bank.open(tmp_path) as bank:
            assert len(bank) >= reported
            assert list(bank) == [experience(i) for i in range(len(bank))]
            hits = bank.search("Cancel the parcel", 10)
            assert hits == bank.search_exact("Cancel the parcel", 10)
            assert bank.stats().indexed == len(bank)


def test_readers_see_a_growing_bank_while_one_writes(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank:
        bank.add([experience(0)])
    done = threading.Event()
    troubles: list[BaseException] = []

    def read() -> None:
        try:
            with Bank.open(tmp_path) as reader:
                seen = 0
                while not done.is_set():
                    before = len(reader)
                    hits = reader.search("Cancel the parcel", 300)
                    assert seen <= before <= len(hits)
                    seen = len(hits)
        except BaseException as err:
            troubles.append(err)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    with Bank.open(tmp_path) as writer:
        for number in range(1, 150):
            writer.add([experience(number)])
    done.set()
    for reader in readers:
        reader.join()
    assert not troubles


def test_two_writers_take_turns(tmp_path: Path) -> None:
    def write(start: int) -> None:
        with Bank.open(tmp_path) as bank:
            for number in range(start, start + 60):
                bank.add([experience(number)])

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 30)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with Bank.open(tmp_path) as bank:
        assert {e.task_id for e in bank} == {f"task-{i}" for i in range(90)}
        assert len(bank) == 90


def test_one_bank_may_be_used_by_several_threads(tmp_path: Path) -> None:
    troubles: list[BaseException] = []
    with Bank.open(tmp_path) as bank:

        def use(start: int) -> None:
            try:
                for number in range(start, start + 30):
                    bank.add([experience(number)])
                    assert bank.search("Cancel the parcel", 2)
            except BaseException as err:
                troubles.append(err)

        users = [threading.Thread(target=use, args=(start,)) for start in (0, 30, 60)]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert not troubles
        assert len(bank) == 90


def test_a_bank_whose_maker_was_killed_at_once_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "bank.sqlite").touch()
    with Bank.open(tmp_path) as bank:
        assert bank.add([experience(1)]) == 1
