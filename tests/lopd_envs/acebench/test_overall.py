from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lopd_envs.acebench.corpus import CATEGORIES, NORMAL, Row, load_corpus
from lopd_envs.acebench.overall import WEIGHTS, published

from lopd_gym.episode import Episode


def episode(row: Row, official: float, **measures: float) -> Episode:
    """What `published` looks at of an episode."""
    found = {"official": official, "strict": 0.0, **measures}
    outcome = SimpleNamespace(measures=found)
    return cast(Episode, SimpleNamespace(task_id=row.id, failed=False, outcome=outcome))


@pytest.fixture(scope="module")
def rows(acebench_folder: Path) -> Any:
    return load_corpus(acebench_folder, "en")


def test_the_published_weights(rows: Any) -> None:
    """Everything normal right, half of the special cases, an agent of two."""
    right = {c: 1.0 for c in NORMAL}
    right |= {"special_incomplete": 1.0, "special_error_param": 0.5, "agent_multi_step": 1.0}
    episodes = [
        episode(row, float(index < right.get(c, 0.0) * len(rows.rows[c])))
        for c in CATEGORIES
        for index, row in enumerate(rows.rows[c])
    ]
    figures = published(rows, episodes)
    assert [figures[part]["official"] for part in WEIGHTS] == [1.0, 0.5, 0.5]
    assert figures["overall"]["official"] == round(0.578 + 0.2676 * 0.5 + 0.1545 * 0.5, 3)
    assert figures["overall"]["tasks"] == 1_023


def test_a_dialogue_passes_if_all_its_rows_do(rows: Any) -> None:
    category = "normal_multi_turn_user_adjust"
    first = [row for row in rows.rows[category] if row.dialogue.endswith("_0")]
    assert len(first) == 2
    others = [row for row in rows.rows[category] if row not in first]
    episodes = [episode(first[0], 1.0), episode(first[1], 0.0), *(episode(r, 1.0) for r in others)]
    figures = published(rows, episodes)[category]
    assert figures["official"] == 49 / 50
    assert figures["process"] == 49.5 / 50
    assert figures["tasks"] == 123


def test_a_partial_evaluation_has_no_overall(rows: Any) -> None:
    episodes = [episode(row, 1.0) for c in CATEGORIES for row in rows.rows[c]]
    assert "overall" in published(rows, episodes)
    figures = published(rows, episodes[1:])
    assert "overall" not in figures
    assert "normal" not in figures
    assert figures["special"]["official"] == 1.0
