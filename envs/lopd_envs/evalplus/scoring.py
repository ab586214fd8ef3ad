"""pass@k, as HumanEval and EvalPlus report it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from statistics import fmean

from lopd_gym.episode import Episode
from lopd_gym.errors import UsageError

KS = (1, 10, 100)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Return the chance that one of ``k`` samples drawn without return is correct.

    This is the unbiased estimator ``1 - C(n - c, k) / C(n, k)`` of Chen et al. 2021 (HumanEval).

    Raises:
        ValueError: There are fewer than ``k`` samples, or more correct ones than samples.
    """
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise ValueError(f"pass@{k} of {correct} correct among {samples} samples is undefined.")
    return 1.0 - comb(samples - correct, k) / comb(samples, k)


def report(
    episodes: Iterable[Episode], task_ids: Sequence[str]
) -> Mapping[str, Mapping[str, float]]:
    """Return pass@k for base and for base with plus tests, over all tasks.

    A ``k`` is reported when every task has at least so many samples. Failed episodes are no
    samples.

    Raises:
        UsageError: A task has no sample: a score over fewer tasks would not be comparable.
    """
    passed: dict[str, list[dict[str, bool]]] = defaultdict(list)
    for episode in episodes:
        if not episode.failed:
            passed[episode.task_id].append({c.name: c.passed for c in episode.outcome.checks})
    missing = [t for t in task_ids if t not in passed]
    if missing:
        raise UsageError(
            f"{len(missing)} of {len(task_ids)} tasks have no finished episode, e.g. "
            f"'{missing[0]}': play them all before pass@k is reported."
        )
    fewest = min(len(passed[t]) for t in task_ids)
    return {
        name: {
            f"pass@{k}": fmean(_of_task(passed[t], parts, k) for t in task_ids)
            for k in KS
            if k <= fewest
        }
        for name, parts in (("base", ("base",)), ("plus", ("base", "plus")))
    }


def _of_task(samples: Sequence[Mapping[str, bool]], parts: Sequence[str], k: int) -> float:
    correct = sum(all(sample.get(part, False) for part in parts) for sample in samples)
    return pass_at_k(len(samples), correct, k)
