"""The numbers of a comparison, as data: what tables, reports and ``comparison.json`` show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lopd_gym.errors import DataError
from lopd_gym.run.folder import read_json
from lopd_gym.stats import Interval

SHARES = (0.1, 0.3, 1.0)
"""Shares of the budget at which scores are compared."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Mean success over seeds after some rollouts, and its range over seeds."""

    rollouts: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Means over the final student's evaluation episodes; entropy in nats per token."""

    turns: float
    calls: float
    parse_errors: float
    response_tokens: float
    entropy: float


@dataclass(frozen=True, slots=True)
class LearnerResult:
    """What one learner (with its options) came to, over its seeds.

    Attributes:
        label: Its name, with the options that differ from its preset.
        runs: Run folders, one for each seed.
        success: Final held-out success by mode (``sampled``, ``greedy``).
        score: Final held-out score by mode.
        by_seed: Final success of each seed by mode.
        curve: Learning curve by mode.
        at_share: Success (sampled) when a share (`SHARES`) of the budget is spent.
        rollouts_to_reference: Rollouts until its curve first reaches the reference's final
            success; None where it never does.
        rollouts: Rollouts spent by each run, those of the bank included.
        tokens: Tokens sampled in training and for the bank, mean over seeds.
        minutes: Wall time of bank, warm-up and training, mean over seeds.
        memory_mib: Largest resident memory.
        behaviour: How the final student plays (sampled).
    """

    label: str
    runs: tuple[str, ...]
    success: dict[str, Interval]
    score: dict[str, Interval]
    by_seed: dict[str, tuple[float, ...]]
    curve: dict[str, tuple[CurvePoint, ...]]
    at_share: tuple[float, ...]
    rollouts_to_reference: int | None
    rollouts: int
    tokens: float
    minutes: float
    memory_mib: float
    behaviour: Behaviour


@dataclass(frozen=True, slots=True)
class Pair:
    """One learner against the reference, in one mode, paired over seeds and tasks.

    Attributes:
        label: The learner.
        mode: How the students played.
        difference: Success, learner minus reference, with its interval over seeds and tasks.
        p: Of the test that the difference is 0, over seeds and tasks.
        p_holm: The same, adjusted over all learners compared in this mode (Holm).
        p_mcnemar: Exact McNemar (sign) test over tasks: of these very students, not of training.
        won: Tasks on which the learner succeeded in more seeds than the reference.
        lost: In fewer.
        tied: In as many.
        detectable: Smallest true difference that this size would have shown in 80 % of cases.
        verdict: In words.
    """

    label: str
    mode: str
    difference: Interval
    p: float
    p_holm: float
    p_mcnemar: float
    won: int
    lost: int
    tied: int
    detectable: float
    verdict: str


class Verdict(NamedTuple):
    """One sentence on some learners: who, in which modes, what."""

    labels: tuple[str, ...]
    modes: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finished comparison; the first learner is the reference of all pairs.

    ``base`` is the success of the model before training by mode, ``nothing`` that of doing
    nothing. ``notes`` says what the numbers do not cover.
    """

    env: str
    split: str
    data_hash: str
    model: str
    tasks: int
    seeds: tuple[int, ...]
    budget: int
    base: dict[str, Interval]
    nothing: Interval
    learners: tuple[LearnerResult, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """Label of the learner that the others are compared with."""
        return self.learners[0].label

    @property
    def verdicts(self) -> list[Verdict]:
        """What the pairs say; learners of which the same is true share a sentence."""
        modes: dict[tuple[str, str], tuple[str, ...]] = {}
        for pair in self.pairs:
            said = pair.label, pair.verdict
            modes[said] = (*modes.get(said, ()), pair.mode)
        labels: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
        for (label, words), where in modes.items():
            labels[where, words] = (*labels.get((where, words), ()), label)
        return [Verdict(who, where, words) for (where, words), who in labels.items()]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values from which `from_json` rebuilds the comparison."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Comparison:
        """Rebuild a comparison from `to_json`."""
        values = dict(plain)
        values["seeds"], values["notes"] = tuple(plain["seeds"]), tuple(plain["notes"])
        values["base"] = {m: Interval(**i) for m, i in plain["base"].items()}
        values["nothing"] = Interval(**plain["nothing"])
        values["learners"] = tuple(_learner(x) for x in plain["learners"])
        pairs = ({**x, "difference": Interval(**x["difference"])} for x in plain["pairs"])
        values["pairs"] = tuple(Pair(**x) for x in pairs)
        return cls(**values)


def read_comparison(path: Path) -> Comparison:
    """Read a ``comparison.json``.

    Raises:
        DataError: It is not JSON, or holds no comparison.
    """
    try:
        return Comparison.from_json(read_json(path))
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise DataError(
            f"{path} holds no comparison ({err!r}): write it again with lopd-gym compare."
        ) from err


def _learner(plain: dict[str, Any]) -> LearnerResult:
    values = dict(plain)
    for name in ("success", "score"):
        values[name] = {m: Interval(**i) for m, i in plain[name].items()}
    values["by_seed"] = {m: tuple(x) for m, x in plain["by_seed"].items()}
    values["curve"] = {
        m: tuple(CurvePoint(**point) for point in points) for m, points in plain["curve"].items()
    }
    for name in ("runs", "at_share"):
        values[name] = tuple(plain[name])
    values["behaviour"] = Behaviour(**plain["behaviour"])
    return LearnerResult(**values)
