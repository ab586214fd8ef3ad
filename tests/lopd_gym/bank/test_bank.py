"""What a bank promises: what gets in, what is found, and what is said when something is wrong."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lopd_gym.bank import Bank, Experience, experience_from
from lopd_gym.bank.embed import HashingEmbedder
from lopd_gym.errors import DataError, LopdGymError, UsageError
from tests.lopd_gym.bank.helpers import episode, experience


def test_adding_is_idempotent_by_content(tmp_path: Path) -> None:
    some = [experience(i) for i in range(5)]
    with Bank.open(tmp_path) as bank:
        assert bank.add([*some, some[0]]) == 5
        assert bank.add([replace(some[0], policy_version=99), experience(7)]) == 1
        assert list(bank) == [*some, experience(7)]


def test_a_second_trace_of_the_same_task_is_another_experience(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank:
        assert bank.add([experience(1), experience(1, trace="1. other() -> ok")]) == 2
        assert bank.stats().instructions == 1
        assert len(bank.search(experience(1).instruction, 5, allow_same_instruction=True)) == 2


def test_a_bank_that_forgot_finds_what_one_finds_that_never_knew(tmp_path: Path) -> None:
    query = experience(12).instruction
    with Bank.open(tmp_path / "one") as one, Bank.open(tmp_path / "two") as two:
        one.add(experience(i) for i in range(30))
        one.search(query, 5)
        one.save_index()
        one.keep(11)
        for bank in (one, two):
            bank.add(experience(i) for i in range(11 if bank is two else 0))
            bank.add(experience(i) for i in range(40, 50))
        assert list(one) == list(two)
        assert one.search(query, 5) == two.search(query, 5)
        assert one.stats() == two.stats()
    with Bank.open(tmp_path / "one") as one, Bank.open(tmp_path / "two") as two:
        assert one.search(query, 5) == two.search(query, 5)


def test_evaluation_tasks_are_refused_and_nothing_of_their_batch_enters(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank:
        with pytest.raises(UsageError, match="split 'test'"):
            bank.add([experience(1), experience(2, split="test")])
        with pytest.raises(UsageError, match="split 'test'"):
            bank.fill([episode(1.0, split="test")])
        assert len(bank) == 0


def test_fill_keeps_successes_only(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank:
        assert (
            bank.fill([episode(None), episode(0.0), episode(0.79), episode(1.0, actions=())]) == 0
        )
        assert bank.fill([episode(0.8)]) == 1
        assert bank.fill([episode(0.5)], min_score=0.5) == 0  # the same trace of the same task
        (kept,) = bank
    assert kept.trace == '1. refund(order_id="R1") -> status=done'
    assert (kept.score, kept.policy_version, kept.env) == (0.8, 4, "shop")


def test_text_that_utf8_cannot_hold_is_stored_all_the_same(tmp_path: Path) -> None:
    found = experience_from(episode(1.0, actions=[("say", {"text": "\ud800\x00"}, "\udfff")]))
    assert found is not None
    with Bank.open(tmp_path) as bank:
        bank.add([found])
        assert list(bank) == [found]
        assert len(bank.search("\ud800", 1)) == 1


def test_search_leaves_out_the_task_itself_and_its_text(tmp_path: Path) -> None:
    own, twin = experience(1), experience(2, instruction=experience(1).instruction)
    with Bank.open(tmp_path) as bank:
        bank.add([own, twin, experience(3)])
        query = own.instruction

        def found(**options: object) -> set[str]:
            return {hit.experience.task_id for hit in bank.search(query, 9, **options)}  # type: ignore[arg-type]

        assert found() == {"task-3"}
        assert found(allow_same_instruction=True) == {"task-1", "task-2", "task-3"}
        assert found(allow_same_instruction=True, exclude_task="task-1") == {"task-2", "task-3"}
        assert found(exclude_task="task-3") == set()


def test_search_widens_until_k_are_found_behind_a_filter(tmp_path: Path) -> None:
    crowd = [experience(i, instruction=f"Refund the order {i}, please.") for i in range(300)]
    rare = [experience(i, env="rare", instruction=f"Prune the tree {i}.") for i in range(300, 303)]
    with Bank.open(tmp_path) as bank:
        bank.add([*crowd, *rare])
        hits = bank.search("Refund the order 5 now", 3, env="rare", split="train")
        assert {hit.experience for hit in hits} == set(rare)
        assert bank.search("Refund", 3, env="absent") == []
        assert bank.search("Refund", 3, split="test") == []


def test_ties_are_ordered_by_id(tmp_path: Path) -> None:
    same = [experience(i, instruction="Water the plants.") for i in range(40)]
    with Bank.open(tmp_path) as bank:
        bank.add(same)
        ids = [hit.experience.id for hit in bank.search("Water all plants", 15)]
    assert ids == sorted(e.id for e in same)[:15]


def test_the_nearest_kind_of_task_comes_first(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank:
        bank.add([experience(i) for i in range(81)])
        (hit,) = bank.search('For "Anna Lee": extend her loan L-99 by 3 days.', 1)
    assert hit.experience.trace.startswith("1. extend_loan")


def test_search_needs_a_positive_k(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank, pytest.raises(UsageError, match="at least 1"):
        bank.search("x", 0)


def test_opening_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no bank"):
        Bank.open(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(LopdGymError, match="Cannot make"):
        Bank.open(tmp_path / "file" / "bank")
    (tmp_path / "bank.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(DataError, match="cannot be used"):
        Bank.open(tmp_path)


def test_a_bank_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    Bank.open(tmp_path).close()
    with sqlite3.connect(tmp_path / "bank.sqlite") as db:
        db.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")
    with pytest.raises(DataError, match=r"format 1 \(found 2\)"):
        Bank.open(tmp_path)


class OtherEmbedder(HashingEmbedder):
    """The same vectors under another name, or none at all."""

    identity = "other"

    def embed(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        """Return rows that are not of unit length for texts that say so."""
        return super().embed(texts) * (2.0 if "bad" in texts else 1.0)


def test_embedders_are_never_mixed(tmp_path: Path) -> None:
    Bank.open(tmp_path).close()
    with pytest.raises(UsageError, match="embedded by 'hashing', not by 'other'"):
        Bank.open(tmp_path, OtherEmbedder())
    with Bank.open(tmp_path) as again:
        assert again.embedder.identity == "hashing"


def test_an_embedder_that_breaks_its_promise_is_named(tmp_path: Path) -> None:
    with Bank.open(tmp_path, OtherEmbedder()) as bank, pytest.raises(LopdGymError, match="'other'"):
        bank.search("bad", 1)


def test_stats_count_by_group(tmp_path: Path) -> None:
    with Bank.open(tmp_path) as bank:
        bank.add([experience(i, group="a" if i < 2 else "b", trace="x" * i) for i in range(5)])
        stats = bank.stats()
    assert (stats.experiences, stats.instructions, stats.indexed) == (5, 5, 5)
    assert (stats.embedder, stats.dim) == ("hashing", 512)
    rows = [(g.env, g.group, g.experiences, g.tasks, g.mean_trace_chars) for g in stats.groups]
    assert rows == [("shop", "a", 2, 2, 0.5), ("shop", "b", 3, 3, 3.0)]


texts = st.text(max_size=40)
experiences = st.builds(
    Experience,
    env=st.sampled_from(["shop", "bank"]),
    split=st.just("train"),
    task_id=texts,
    group=texts,
    instruction=texts,
    trace=texts,
    score=st.floats(0, 1),
    policy_version=st.integers(0, 2**40),
)


@settings(max_examples=40, deadline=None)
@given(batch=st.lists(experiences, max_size=12), query=texts, k=st.integers(1, 9))
def test_any_content_survives_and_search_equals_exact_search(
    tmp_path_factory: pytest.TempPathFactory, batch: list[Experience], query: str, k: int
) -> None:
    folder = tmp_path_factory.mktemp("bank")
    first_of_each = {e.id: e for e in reversed(batch)}
    with Bank.open(folder / "one") as bank:
        assert bank.add(batch) == len(first_of_each)
        assert {e.id: e for e in bank} == first_of_each
        hits = bank.search(query, k)
        assert hits == bank.search_exact(query, k)
        assert len(hits) == min(k, sum(e.instruction != query for e in first_of_each.values()))
        assert bank.export_jsonl(folder / "out.jsonl") == len(first_of_each)
        with Bank.open(folder / "two") as copy:
            assert copy.import_jsonl(folder / "out.jsonl") == len(first_of_each)
            assert list(copy) == list(bank)
            assert copy.search(query, k) == hits
