"""LiveCodeBench: contest problems by date, judged by public and private tests.

Read `corpus.py` (the data), `testcases.py` (tests, decoded without unpickling), `windows.py` (dates
and errata), `compare.py` (when an output is right), `grading.py` and `env.py`. `starter.py` holds
small programs to write, made for this project, for where no data is given.
"""

from __future__ import annotations

from pathlib import Path

from lopd_envs.livecodebench.compare import Comparison
from lopd_envs.livecodebench.corpus import load_corpus
from lopd_envs.livecodebench.env import LiveCodeBenchEnv
from lopd_envs.livecodebench.starter import starter_corpus
from lopd_envs.livecodebench.windows import read_window
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.errors import unknown_name
from lopd_gym.registry import SANDBOXES, load
from lopd_gym.tasks import TRAIN_SPLIT

__all__ = ["LiveCodeBenchEnv", "make_livecodebench"]

_COMPARISONS: dict[str, Comparison] = {"official": "official", "strict": "strict"}


def make_livecodebench(
    split: str = TRAIN_SPLIT,
    data: Path | str | None = None,
    rules: EpisodeRules | None = None,
    protocol: str = "turns",
    comparison: str = "official",
    window: str | None = None,
    sandbox: str = "process",
) -> ToolEnv:
    """LiveCodeBench's contest problems; small starter programs where no data is given.

    Args:
        split: Name of a split, which is a window of contest dates.
        data: Folder with test.jsonl, test2.jsonl ... of a release, or one such file.
        rules: Rules of an episode.
        protocol: ``turns`` (tools, then submit) or ``direct`` (one reply, the benchmark's own).
        comparison: ``official``, or ``strict``, which has a tolerance for fractions.
        window: A window of your own, e.g. 2024-08-01:2025-02-01; it becomes the split ``window``.
        sandbox: Isolation backend that runs what the policy writes.

    Raises:
        UsageError: No such split, protocol, comparison, window or sandbox.
        DataError: There is no such data, or it is not what it should be.
    """
    if comparison not in _COMPARISONS:
        raise unknown_name("comparison", comparison, _COMPARISONS)
    return LiveCodeBenchEnv(
        starter_corpus() if data is None else load_corpus(Path(data).expanduser()),
        load(SANDBOXES, sandbox)(),
        split,
        rules,
        protocol,
        _COMPARISONS[comparison],
        None if window is None else read_window(window),
    )
