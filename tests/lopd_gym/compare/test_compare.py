"""Finished runs are compared, runs that differ are refused, and the numbers add up."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from lopd_gym.cli.compare_table import write_csv
from lopd_gym.compare.analyse import compare_runs
from lopd_gym.compare.collect import FinishedRun, learner_label, read_run
from lopd_gym.compare.result import Comparison
from lopd_gym.errors import UsageError
from lopd_gym.run.build import learner_section
from lopd_gym.run.settings import TINY_DEFAULTS, RunSettings, merge, validate

TASKS = [f"t{n}" for n in range(10)]


def make_run(learner: str, seed: int, solved: int, **changes: Any) -> FinishedRun:
    """A run whose student solves the first tasks, and whose base solves two."""
    options = changes.pop("options", {})
    values: dict[str, Any] = {"env": {"name": "envscaler"}, "seed": seed}
    merge(values, TINY_DEFAULTS)
    merge(values, {"evaluation": {"tasks": len(TASKS)}, **changes})
    values["learner"] = learner_section(learner, "tiny", options)
    settings = validate(RunSettings, values, "a run")

    def played(count: int) -> dict[str, tuple[float, float]]:
        return {t: (float(i < count), 1.0 if i < count else 0.5) for i, t in enumerate(TASKS)}

    rate = solved / len(TASKS)
    summary = {
        "env": "envscaler:starter",
        "data_hash": "abc",
        "gain": {"sampled": {}, "greedy": {}},
        "curve": [[n, m, y] for m in ("sampled", "greedy") for n, y in ((0, 0.2), (672, rate))],
        "rollouts": {"total": 672},
        "tokens": 1000,
        "minutes": {"bank": 1.0, "training": 2.0, "curve": 9.0},
        "peak_memory_mib": 100.0 + seed,
    }
    results = {
        "nothing": played(0),
        "base-sampled": played(2),
        "base-greedy": played(2),
        "student-sampled": played(solved),
        "student-greedy": played(solved),
    }
    names = ("turns", "calls", "parse_errors", "response_tokens", "entropy")
    folder = Path(f"{learner}-{seed}")
    return FinishedRun(folder, settings, summary, results, dict.fromkeys(names, 1.0))


def compare(a: int, b: int) -> Comparison:
    runs = [make_run(name, seed, n) for seed in range(3) for name, n in (("lopd", a), ("grpo", b))]
    return compare_runs(runs)


def test_the_numbers_of_a_comparison() -> None:
    found = compare(9, 5)
    lopd, grpo = found.learners
    assert found.reference == lopd.label == "lopd"
    assert (found.tasks, found.seeds, found.budget) == (10, (0, 1, 2), 672)
    assert found.base["sampled"].mean == 0.2
    assert found.nothing.mean == 0.0
    assert lopd.success["greedy"].mean == pytest.approx(0.9)
    assert grpo.score["sampled"].mean == pytest.approx(0.75)
    assert grpo.by_seed["sampled"] == (0.5, 0.5, 0.5)
    assert lopd.minutes == 3.0
    assert lopd.memory_mib == 102.0
    assert lopd.rollouts_to_reference == 672
    assert grpo.rollouts_to_reference is None
    assert lopd.at_share == pytest.approx((0.2, 0.2, 0.9))
    pair = found.pairs[0]
    assert (pair.label, pair.mode) == ("grpo", "sampled")
    assert pair.difference.mean == pytest.approx(-0.4)
    assert (pair.won, pair.lost, pair.tied) == (0, 4, 6)
    assert pair.p_mcnemar == 0.125


def test_verdicts_in_words() -> None:
    assert {p.verdict for p in compare(5, 5).pairs} == {"no difference to lopd shown"}
    assert {p.verdict for p in compare(0, 10).pairs} == {"better than lopd by 1.00"}
    assert {p.verdict for p in compare(10, 0).pairs} == {"worse than lopd by 1.00"}


def test_learners_of_which_the_same_is_true_share_a_sentence() -> None:
    wins = {"lopd": 0, "grpo": 0, "sdpo": 10, "rft": 10}
    found = compare_runs([make_run(x, seed, n) for x, n in wins.items() for seed in range(3)])
    assert found.verdicts == [
        (("grpo",), ("sampled", "greedy"), "no difference to lopd shown"),
        (("sdpo", "rft"), ("sampled", "greedy"), "better than lopd by 1.00"),
    ]


def test_one_seed_says_what_it_does_not_cover() -> None:
    runs = [make_run("lopd", 0, 9), make_run("grpo", 0, 5)]
    (note,) = compare_runs(runs).notes
    assert "another training run" in note


def test_failed_tasks_are_left_out_of_all_runs() -> None:
    broken = make_run("grpo", 0, 5)
    del broken.results["student-greedy"]["t0"]  # type: ignore[attr-defined]
    found = compare_runs([make_run("lopd", 0, 9), broken])
    assert found.tasks == 9
    assert any("1 tasks are left out" in note for note in found.notes)


def test_json_and_csv_hold_everything(tmp_path: Path) -> None:
    found = compare(9, 5)
    plain = json.loads(json.dumps(found.to_json()))
    assert Comparison.from_json(plain) == found
    write_csv(found, tmp_path / "c.csv")
    rows = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert [(r["learner"], r["mode"]) for r in rows] == [
        (name, mode) for name in ("lopd", "grpo") for mode in ("sampled", "greedy")
    ]
    assert float(rows[2]["difference"]) == pytest.approx(-0.4)
    assert rows[0]["difference"] == ""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"evaluation": {"seed": 7}}, "evaluation seed"),
        ({"evaluation": {"tasks": 9}}, "number of evaluation tasks"),
        ({"rollouts": 900}, "budget of rollouts"),
        ({"model": {"student": {"kind": "lora"}}}, "model"),
        ({"max_new_tokens": 9}, "limits"),
    ],
)
def test_runs_that_differ_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"their {named} differs"):
        compare_runs([make_run("lopd", 0, 9), make_run("grpo", 0, 5, **changes)])


def test_another_environment_or_data_is_refused() -> None:
    for name, key in (("environment", "env"), ("data hash", "data_hash")):
        other = make_run("grpo", 0, 5)
        other.summary[key] = "other"  # type: ignore[index]
        with pytest.raises(UsageError, match=f"their {name} differs"):
            compare_runs([make_run("lopd", 0, 9), other])


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([("lopd", 0), ("lopd", 0), ("grpo", 0)], "has a seed twice"),
        ([("lopd", 0), ("grpo", 1)], "needs the same seeds"),
        ([("lopd", 0), ("lopd", 1)], "needs two learners"),
    ],
)
def test_seeds_and_learners_have_to_match(runs: list[tuple[str, int]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compare_runs([make_run(name, seed, 5) for name, seed in runs])


def test_a_label_names_what_differs_from_the_preset() -> None:
    assert learner_label(learner_section("lopd", "tiny", {})) == "lopd"
    changed = learner_section("lopd", "tiny", {"composer": "frozen", "items": 1})
    assert learner_label(changed) == "lopd:items=1,composer=frozen"


def test_an_unfinished_run_is_named(tmp_path: Path) -> None:
    settings = make_run("lopd", 0, 5).settings
    (tmp_path / "settings.json").write_text(settings.model_dump_json())
    with pytest.raises(UsageError, match=r"is not finished: continue it with lopd-gym run"):
        read_run(tmp_path)
    with pytest.raises(UsageError, match="is not a run folder"):
        read_run(tmp_path / "absent")
