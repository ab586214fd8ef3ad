"""The starter suite: small tool domains in the EnvScaler shape, written for this project.

It is what ``--env envscaler`` plays where no EnvScaler release is present. Read `world.py`, one
file of `domains/`, `rules.py`, `generate.py`, `play.py`, `env.py`.
"""

from __future__ import annotations

from lopd_envs.envscaler.starter.domains import DOMAINS, HELD_OUT_DOMAINS, TRAIN_DOMAINS
from lopd_envs.envscaler.starter.env import STARTER_RULES, StarterEnv
from lopd_envs.envscaler.starter.generate import Goal, make_task
from lopd_envs.envscaler.starter.play import FINAL_TEXT, check, open_world, solve
from lopd_envs.envscaler.starter.rules import Habit, Options
from lopd_envs.envscaler.starter.vocabulary import vocabulary
from lopd_envs.envscaler.starter.world import World

__all__ = [
    "DOMAINS",
    "FINAL_TEXT",
    "HELD_OUT_DOMAINS",
    "STARTER_RULES",
    "TRAIN_DOMAINS",
    "Goal",
    "Habit",
    "Options",
    "StarterEnv",
    "World",
    "check",
    "make_task",
    "open_world",
    "solve",
    "vocabulary",
]
