"""What a run's teacher makes of single tokens: loads a checkpoint and asks the learner.

The newest two checkpoints are kept, so the last step's episodes meet the very weights that sampled
them and taught on them, unless there is one checkpoint only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from lopd_gym.bank import Bank, get_embedder
from lopd_gym.episode import Episode, read_episodes
from lopd_gym.errors import UsageError
from lopd_gym.learner import Learner, LearnerContext, TokenView
from lopd_gym.report.episode_view import EpisodeView, Token, episode_view
from lopd_gym.run.build import learner_type, load_backbone
from lopd_gym.run.checkpoint import Checkpoints
from lopd_gym.run.folder import RunFolder

MAX_TOKENS = 800
"""Sampled tokens that are coloured of one episode."""


@dataclass(frozen=True, slots=True)
class TaughtStep:
    """Episodes of one training step with their tokens, and the checkpoint that was asked."""

    step: int
    checkpoint: int
    views: Sequence[EpisodeView]


def taught_step(run: Path, count: int) -> TaughtStep:
    """Let the learner compare teacher and student on some episodes of the last training step.

    Args:
        run: Folder of a run that has trained at least one step.
        count: How many episodes, failures and successes in turn.

    Raises:
        UsageError: The run has not trained yet, or its learner has no teacher to ask.
    """
    folder, settings = RunFolder.existing(run)
    checkpoints = Checkpoints(run / "checkpoints")
    steps = checkpoints.steps()
    if not steps or steps[-1] == 0:
        raise UsageError(f"{run} has trained no step yet, so there are no tokens to compare.")
    step, checkpoint = steps[-1], steps[-2:][0]
    first = (step - 1) * settings.episodes_per_step
    lines = islice(read_episodes(folder.episodes("train")), first, None)
    numbered = list(enumerate(islice(lines, settings.episodes_per_step), first))
    played = [(number, episode) for number, episode in numbered if not episode.failed]
    backbone = load_backbone(settings)
    kind, config = learner_type(settings.learner)
    with Bank.open(folder.bank, get_embedder(settings.embedder)) as bank:
        learner = kind(config, LearnerContext(backbone, bank, settings.seed, run))
        state = checkpoints.load(checkpoint)
        backbone.load_student_state(state["student"])
        learner.load_state_dict(state["learner"])
        views = list(islice(_views(learner, played, backbone.decode), count))
    if not views:
        raise UsageError(
            f"'{kind.name}' compared no teacher with the student on step {step} of {run}, so there "
            "is nothing to colour: leave --tokens out."
        )
    return TaughtStep(step, checkpoint, views)


def _views(
    learner: Learner, played: Sequence[tuple[int, Episode]], decode: Callable[[list[int]], str]
) -> Iterator[EpisodeView]:
    """Yield episodes that a teacher has something to say on, failures and successes in turn."""
    step = [episode for _, episode in played]
    missed = [pair for pair in played if not pair[1].outcome.success]
    solved = [pair for pair in played if pair[1].outcome.success]
    in_turn = chain.from_iterable(zip_longest(missed, solved))
    for number, episode in (pair for pair in in_turn if pair is not None):
        view = learner.token_view(episode, step)
        if view is not None:
            tokens = _by_turn(episode, view, decode)
            yield episode_view(episode, "train", number, [], tokens, view.context)


def _by_turn(
    episode: Episode, view: TokenView, decode: Callable[[list[int]], str]
) -> dict[int, list[Token]]:
    """Give each of the policy's turns its tokens."""
    found: dict[int, list[Token]] = {}
    places = view.positions[:MAX_TOKENS]
    turns = episode.turn_index[places]
    for turn in dict.fromkeys(turns.tolist()):
        chosen = turns == turn
        texts = token_texts(episode.token_ids[places[chosen]].tolist(), decode)
        numbers = (x[:MAX_TOKENS][chosen].tolist() for x in (view.teacher, view.student))
        found[turn] = [Token(*values) for values in zip(texts, *numbers, strict=True)]
    return found


def token_texts(ids: Sequence[int], decode: Callable[[list[int]], str]) -> list[str]:
    """Return the text that each id adds; a character of several ids comes with its last one."""
    texts, before = [], ""
    for end in range(1, len(ids) + 1):
        text = decode(list(ids[:end]))
        unfinished = text.endswith("\ufffd") and end < len(ids)
        texts.append("" if unfinished else text[len(before) :])
        before = before if unfinished else text
    return texts
