"""A small world for LOPD: a random model, a bank, episodes whose ids no tokenizer would choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from lopd_learners.lopd import LOPD, LOPDConfig

from lopd_gym.bank import Bank, Experience
from lopd_gym.episode import Episode, Sampling
from lopd_gym.learner import LearnerContext
from lopd_gym.messages import Message, ToolSpec
from lopd_gym.policy.backbone import Backbone
from lopd_gym.tasks import Outcome, Task, Termination
from tests.lopd_gym.policy.models import make_backbone

TOOLS = (ToolSpec("find", "Find a book."),)
BOOKS = ("red", "blue", "green", "old", "new", "long")
OPTIONS: dict[str, Any] = {
    "items": 2,
    "latents": 3,
    "support": 8,
    "depth": 2,
    "encoder_rank": 4,
    "latent_scale": "embedding",
    "student_lr": 1e-3,
    "composer_lr": 1e-3,
    "cold_start_steps": 0,
    "gradient_checkpointing": False,
    "framing_before": "Seen:\n",
    "framing_after": "\nNow:\n",
}


def make_task(number: int) -> Task:
    said = f"Find the {BOOKS[number % len(BOOKS)]} book number {number}."
    messages = (Message("system", "You keep books."), Message("user", said))
    return Task(f"task-{number}", "train", messages, group=f"group-{number % 2}")


def make_bank(folder: Path, count: int = 6) -> Bank:
    bank = Bank.open(folder, "hashing")
    for task in map(make_task, range(count)):
        trace = f'1. find(id={task.id[-1]}) -> "ok"'
        bank.add([Experience("books", "train", task.id, task.group, task.instruction, trace, 1.0)])
    return bank


def spelled(backbone: Backbone, text: str) -> list[int]:
    """Tokenise letter by letter: valid ids that the tokenizer would never choose itself."""
    return [token for letter in text for token in backbone.encode(letter)]


def make_episode(
    backbone: Backbone, number: int, score: float | None = 1.0, attempt: int = 0
) -> Episode:
    """Play a task: a sampled call, its result, a sampled answer."""
    task, chat = make_task(number), backbone.chat
    prefix, rest = (backbone.encode(text) for text in chat.opening(task.messages, TOOLS))
    end = backbone.end_of_turn_id
    call = [*spelled(backbone, f"find book {number}{'!' * attempt}"), end]
    result = backbone.encode(chat.following((Message("tool", "it is there"),), ended=True))
    answer = [*spelled(backbone, "done" * (1 + number % 3)), end]
    pieces = [(prefix + rest, False, -1), (call, True, 0), (result, False, 1), (answer, True, 1)]
    ids = [i for piece, _, _ in pieces for i in piece]
    mask = [sampled for piece, sampled, _ in pieces for _ in piece]
    turns = [turn for piece, _, turn in pieces for _ in piece]
    ended = Termination.SUBMITTED if score is not None else Termination.INFRASTRUCTURE
    return Episode(
        task_id=task.id,
        env="books",
        split="train",
        group=task.group,
        instruction=task.instruction,
        attempt=attempt,
        seed=0,
        policy_version=0,
        sampling=Sampling(),
        token_ids=np.array(ids, np.int32),
        loss_mask=np.array(mask, bool),
        logprobs=np.zeros(len(ids), np.float32),
        turn_index=np.array(turns, np.int16),
        prefix_len=len(prefix),
        outcome=Outcome(score, score == 1.0, ended),
        transcript=tuple(
            {"role": m.role, "content": m.content}
            for m in (*task.messages, Message("assistant", "..."), Message("tool", "it is there"))
        ),
        actions=(("find", {"id": number}, "it is there"),),
        tools=TOOLS,
    )


def make_learner(
    bank: Bank, folder: Path, backbone: Backbone | None = None, **options: Any
) -> LOPD:
    backbone = backbone or make_backbone(kind="full")
    config = LOPDConfig(**{**OPTIONS, **options})
    return LOPD(config, LearnerContext(backbone, bank, seed=0, folder=folder))


def nothing(done: int, steps: int, metrics: dict[str, float]) -> None:
    """Take progress and do nothing with it."""
