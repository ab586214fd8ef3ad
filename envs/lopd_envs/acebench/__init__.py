"""ACEBench: single replies that call functions, special cases, and agents on simulated apps.

Read `corpus.py` (the data), `splits.py`, `env.py` (the environment), `scenes/` (the apps),
`user.py` (who plays the user) and `scoring/` (every score twice: officially and strictly).
"""

from __future__ import annotations

from pathlib import Path

from lopd_envs.acebench.corpus import load_corpus
from lopd_envs.acebench.env import AceBenchEnv, LiveUserEnv, Protocol, Scoring, options
from lopd_envs.acebench.user import SCRIPTED, find_users
from lopd_gym.env import EpisodeRules
from lopd_gym.errors import DataError
from lopd_gym.tasks import TRAIN_SPLIT

__all__ = ["AceBenchEnv", "make_acebench"]


def make_acebench(
    split: str = TRAIN_SPLIT,
    data: Path | str | None = None,
    language: str = "en",
    rules: EpisodeRules | None = None,
    scoring: Scoring = "official",
    protocol: Protocol = "calls",
    user: str | None = None,
    user_url: str | None = None,
) -> AceBenchEnv:
    """ACEBench's function calls and agent tasks, scored officially and strictly.

    Args:
        split: Name of a split.
        data: Folder with upstream's ``data_en`` and ``data_zh``.
        language: ``en`` or ``zh``.
        rules: Rules of an agent episode.
        scoring: ``official`` or ``strict``: which verdict is the score.
        protocol: ``calls`` (functions are tools) or ``text`` (ACEBench's notation).
        user: Who plays the user of ``agent_multi_turn``: a model that runs here, named as
            ``--model`` takes it (the policy's own, where it is the same); ``openai:NAME``; or
            ``scripted`` (tests).
        user_url: Address of the endpoint of ``openai:NAME``.

    Raises:
        UsageError: No such split, language, scoring or protocol, or no address of a user.
        DataError: The folder does not hold the data, or damaged; or there is no such user.
    """
    options({"scoring": scoring, "protocol": protocol})
    if data is None:
        raise DataError(
            "ACEBench's data is not named: 'git clone https://github.com/chenchen0103/ACEBench' "
            "and give --data ACEBench/data_all."
        )
    corpus = load_corpus(Path(data).expanduser(), language)
    kind = AceBenchEnv if user in (None, SCRIPTED) else LiveUserEnv
    return kind(corpus, split, rules, scoring, protocol, find_users(user, user_url))
