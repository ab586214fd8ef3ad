"""Experiences and episodes to test with."""

from __future__ import annotations

from typing import Any

import numpy as np

from lopd_gym.bank import Experience
from lopd_gym.episode import GREEDY, Episode
from lopd_gym.tasks import Outcome, Termination

THINGS = ("order", "booking", "invoice", "ticket", "loan", "parcel", "visit", "course", "room")
VERBS = ("refund", "cancel", "move", "extend", "approve", "archive", "reopen", "assign", "merge")


def experience(number: int = 0, **changes: Any) -> Experience:
    """Return one of many different experiences."""
    verb, thing = VERBS[number % 9], THINGS[number // 9 % 9]
    fields: dict[str, Any] = {
        "env": "shop",
        "split": "train",
        "task_id": f"task-{number}",
        "group": thing,
        "instruction": f"Please {verb} the {thing} of customer {number}.",
        "trace": f'1. {verb}_{thing}(customer_id="{number}") -> status=done',
        "score": 1.0,
        "policy_version": number,
    }
    return Experience(**(fields | changes))


def episode(score: float | None, split: str = "train", actions: Any = None) -> Episode:
    """Return an episode of one executed call with this score."""
    failed = score is None
    ending = Termination.INFRASTRUCTURE if failed else Termination.SUBMITTED
    called = [("refund", {"order_id": "R1"}, '{"status":"done"}')]
    return Episode(
        task_id="t1",
        env="shop",
        split=split,
        group="order",
        instruction="Refund order R1.",
        attempt=0,
        seed=0,
        policy_version=4,
        sampling=GREEDY,
        token_ids=np.zeros(1, np.int32),
        loss_mask=np.zeros(1, np.bool_),
        logprobs=np.zeros(1, np.float32),
        turn_index=np.zeros(1, np.int16),
        prefix_len=1,
        outcome=Outcome(score, bool(score and score >= 1.0), ending),
        actions=tuple(called if actions is None else actions),
    )
