"""Splits: MBPP's own, and HumanEval+ for testing.

MBPP publishes its problems 11 to 510 as the test set; training takes the others. The benchmark as
it is reported, all of MBPP+, is a split too: for models that were not trained here.
"""

from __future__ import annotations

from collections.abc import Mapping

from lopd_envs.evalplus.corpus import Corpus
from lopd_gym.tasks import TRAIN_SPLIT

TEST, MBPP_TEST, MBPP_ALL = "test", "test_mbpp", "mbpp"
SPLITS = (TRAIN_SPLIT, TEST, MBPP_TEST, MBPP_ALL)

_MBPP_TEST_NUMBERS = range(11, 511)


def split_ids(corpus: Corpus) -> Mapping[str, list[str]]:
    """Return the ids of every split: ``train``, ``test`` (HumanEval+), ``test_mbpp``, ``mbpp``."""
    if corpus.splits:
        return corpus.splits
    ids: dict[str, list[str]] = {split: [] for split in SPLITS}
    for problem_id in corpus.problems:
        source, _, number = problem_id.partition("/")
        if source == "HumanEval":
            ids[TEST].append(problem_id)
        else:
            held_out = int(number) in _MBPP_TEST_NUMBERS
            ids[MBPP_TEST if held_out else TRAIN_SPLIT].append(problem_id)
            ids[MBPP_ALL].append(problem_id)
    return ids
