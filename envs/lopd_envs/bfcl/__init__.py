"""The Berkeley Function Calling Leaderboard, from the `bfcl-eval` wheel that the user installs.

Read `wheel.py` (what is taken from the wheel), `corpus.py` (the entries), `world.py` (the simulated
APIs), `play.py` and `env.py` (an episode), `multi_turn.py` and `single_turn.py` (the verdicts), and
`leaderboard.py` (how categories add up).
"""

from __future__ import annotations

from pathlib import Path

from lopd_envs.bfcl.env import BFCLEnv
from lopd_envs.bfcl.prompts import PROTOCOLS
from lopd_envs.bfcl.wheel import load_wheel
from lopd_gym.env import EpisodeRules
from lopd_gym.errors import unknown_name
from lopd_gym.tasks import TRAIN_SPLIT

__all__ = ["BFCLEnv", "make_bfcl"]


def make_bfcl(
    split: str = TRAIN_SPLIT,
    data: Path | str | None = None,
    rules: EpisodeRules | None = None,
    protocol: str = "fc",
) -> BFCLEnv:
    """The Berkeley Function Calling Leaderboard: multi-turn and single-turn tool use.

    Args:
        split: A category, ``train`` or ``test``.
        data: Folder that holds the package ``bfcl_eval``; default: the installed one.
        rules: Rules of an episode; default: the leaderboard's.
        protocol: ``fc`` offers functions as tools, ``prompting`` describes them in the prompt.

    Raises:
        UsageError: No such split or protocol.
        DataError: The wheel is absent, altered or of an unknown release.
    """
    folder = None if data is None else Path(data).expanduser().resolve()
    wheel = load_wheel(folder)
    for known in PROTOCOLS:
        if known == protocol:
            return BFCLEnv(wheel, split, rules, known)
    raise unknown_name("protocol", protocol, PROTOCOLS)
