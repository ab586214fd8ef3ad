"""Success of the tiny policy on held-out tasks: alone, with traces as text, and with latents.

    python -m recipes.tiny_policy.evaluate [FOLDER]

The traces are true ones of training tasks, either of the task's own domain or of another one. A
composer that was never trained is the control for the latents.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from lopd_envs.envscaler.starter import DOMAINS, TRAIN_DOMAINS, StarterEnv, make_task
from lopd_learners.lopd.composer import Composer

from lopd_gym.bank.trace import item_text
from lopd_gym.episode import GREEDY, Episode, Sampling
from lopd_gym.loop import AgentLoop, LoopLimits
from lopd_gym.messages import Message, ToolSpec
from lopd_gym.policy.backbone import Backbone, StudentConfig
from lopd_gym.policy.base import Prompt
from lopd_gym.policy.loading import TINY_FOLDER
from lopd_gym.policy.model_policy import MakePrompt, ModelPolicy, task_prompt
from lopd_gym.run.rollouts import evaluation_jobs
from lopd_gym.tasks import Task
from recipes.tiny_policy.demonstrations import (
    FRAMING_AFTER,
    FRAMING_BEFORE,
    TASKS_PER_DOMAIN,
    trace_of,
)

TASKS = 256
Source = Literal["own", "other"]
_SENTINEL = "\x00"


@dataclass(frozen=True, slots=True)
class Success:
    """Success over all tasks and in each domain."""

    mean: float
    by_domain: dict[str, float]

    def __str__(self) -> str:
        parts = " ".join(f"{d[:4]} {v:.2f}" for d, v in self.by_domain.items())
        return f"{self.mean:.3f}  ({parts})"


def success(episodes: list[Episode]) -> Success:
    """Average success, in all and for each domain."""
    groups = defaultdict(list)
    for episode in episodes:
        groups[episode.group].append(float(episode.outcome.success))
    every = [value for values in groups.values() for value in values]
    means = {group: sum(v) / len(v) for group, v in sorted(groups.items())}
    return Success(sum(every) / len(every), means)


def play(
    backbone: Backbone, sampling: Sampling, make_prompt: MakePrompt, tasks: int = TASKS
) -> Success:
    """Play the first held-out tasks with the base policy."""
    policy = ModelPolicy(
        backbone, weights="base", sampling=sampling, max_new_tokens=48, make_prompt=make_prompt
    )
    split = StarterEnv("test").tasks("test")
    jobs = evaluation_jobs([split[i].id for i in range(tasks)], 0)
    limits = LoopLimits(concurrency=128, max_tokens=1_024)
    with AgentLoop(lambda: StarterEnv("test"), policy, sampling, limits) as loop:
        return success(loop.play(jobs))


def alone(backbone: Backbone) -> MakePrompt:
    """Make prompts without a memory."""
    return lambda task, tools: task_prompt(backbone, task, tools)


def with_text(backbone: Backbone, source: Source) -> MakePrompt:
    """Make prompts with one trace as text."""

    def make(task: Task, tools: tuple[ToolSpec, ...]) -> Prompt:
        (item,) = true_items(task, source, 1)
        return task_prompt(backbone, _framed(task, item), tools)

    return make


def with_latents(backbone: Backbone, composer: Composer, source: Source) -> MakePrompt:
    """Make prompts with the latents of two traces."""

    def make(task: Task, tools: tuple[ToolSpec, ...]) -> Prompt:
        items = true_items(task, source, 2)
        with torch.no_grad():
            latents = torch.cat(composer([task.instruction] * len(items), items))
        prefix, rest = backbone.chat.opening(_framed(task, _SENTINEL).messages, tools)
        before, after = (backbone.encode(part) for part in prefix.split(_SENTINEL))
        places = [backbone.tokenizer.pad_token_id] * len(latents)
        ids = before + places + after
        return Prompt(ids + backbone.encode(rest), len(ids), latents, len(before))

    return make


def true_items(task: Task, source: Source, count: int) -> Sequence[str]:
    """Return traces of training tasks under the rules that really hold."""
    rng = random.Random(task.id)
    others = [d for d in TRAIN_DOMAINS if d != task.group]
    domain = task.group if source == "own" else rng.choice(others)
    examples = [make_task(domain, "train", rng.randrange(TASKS_PER_DOMAIN)) for _ in range(count)]
    return [item_text(*trace_of(example, DOMAINS[domain].true_rules)) for example in examples]


def _framed(task: Task, memory: str) -> Task:
    system, user = task.messages
    framed = Message("user", f"{FRAMING_BEFORE}{memory}{FRAMING_AFTER}{user.content}")
    return replace(task, messages=(system, framed))


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else TINY_FOLDER
    torch.set_num_threads(1)
    backbone = Backbone.load(str(folder), student=StudentConfig(kind="full"))
    trained = Composer.load(backbone, folder)
    untrained = Composer(backbone, trained.config)
    rows: list[tuple[str, MakePrompt]] = [
        ("alone", alone(backbone)),
        ("text, own domain", with_text(backbone, "own")),
        ("text, other domain", with_text(backbone, "other")),
        ("latents, own domain", with_latents(backbone, trained, "own")),
        ("latents, other domain", with_latents(backbone, trained, "other")),
        ("latents, untrained", with_latents(backbone, untrained, "own")),
    ]
    for label, make_prompt in rows:
        for name, sampling in (("greedy", GREEDY), ("sampled", Sampling())):
            print(f"{label:<22} {name:<8} {play(backbone, sampling, make_prompt)}", flush=True)


if __name__ == "__main__":
    main()
