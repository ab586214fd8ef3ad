"""EvalPlus: HumanEval+ and MBPP+, functions to write, judged by many hidden inputs.

Read `corpus.py` (the data), `repair.py`, `splits.py`, `oracles.py` (when an output is right),
`grading.py` (references, limits, judgement), `examples.py` (public tests), `env.py` and
`scoring.py` (pass@k). `starter.py` holds small tasks written for this project, for where no
release is present.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from lopd_envs.evalplus.corpus import Corpus, load_corpus
from lopd_envs.evalplus.dataset import DATASET
from lopd_envs.evalplus.env import EvalPlusEnv
from lopd_envs.evalplus.grading import Grader
from lopd_envs.evalplus.starter import starter_corpus
from lopd_gym.env import EpisodeRules, ToolEnv
from lopd_gym.registry import SANDBOXES, load
from lopd_gym.sandbox import Sandbox
from lopd_gym.tasks import TRAIN_SPLIT

__all__ = ["EvalPlusEnv", "make_evalplus"]


def make_evalplus(
    split: str = TRAIN_SPLIT,
    data: Path | str | None = None,
    rules: EpisodeRules | None = None,
    protocol: str = "turns",
    sandbox: str = "process",
) -> ToolEnv:
    """HumanEval+ and MBPP+; small starter tasks where the release is absent.

    Args:
        split: Name of a split.
        data: Folder with the release's files, or one of them; default: the pulled release, if
            present.
        rules: Rules of an episode.
        protocol: ``turns`` (tools, then submit) or ``direct`` (one reply, the benchmark's own).
        sandbox: Isolation backend that runs what the policy writes.

    Raises:
        UsageError: No such split, protocol or sandbox.
        DataError: There is no such data, or it is not what it should be.
    """
    if data is None and not DATASET.present:
        corpus = starter_corpus()
    else:
        corpus = load_corpus(DATASET.folder if data is None else Path(data).expanduser())
    backend, grader = _grader(corpus, sandbox)
    return EvalPlusEnv(corpus, grader, backend, split, rules, protocol)


@lru_cache(maxsize=4)
def _grader(corpus: Corpus, sandbox: str) -> tuple[Sandbox, Grader]:
    """Share what the references returned between all environments on the same data."""
    backend: Sandbox = load(SANDBOXES, sandbox)()
    return backend, Grader(backend)
