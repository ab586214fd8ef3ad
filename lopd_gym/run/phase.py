"""The episodes of a phase, played in chunks: what is finished survives a kill.

A chunk always holds the same jobs, so that the episodes of a resumed phase share their batches with
the same neighbours as in an undisturbed one. Episodes without tokens (of scripts and endpoints)
have no such neighbours: they are kept one by one, and none of them is played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lopd_gym.episode import Episode, append_episodes, read_episodes
from lopd_gym.errors import InfrastructureError
from lopd_gym.loop import AgentLoop, Job

OnEpisode = Callable[[Episode], None]

_CHUNKS_PER_BATCH = 2
"""A chunk is this many times the concurrency: long enough to keep the batch full."""

_FAILURES_ALLOWED = 3
"""So many episodes may always fail: early on, a rate says nothing."""


def play_phase(
    loop: AgentLoop,
    jobs: Sequence[Job],
    path: Path,
    on_episode: OnEpisode,
    max_failure_rate: float,
) -> list[Episode]:
    """Play all jobs, appending to ``path``; what is already there is not played again.

    Failed episodes are, where so many failed that the phase was stopped.

    Raises:
        InfrastructureError: More episodes failed than ``max_failure_rate`` allows.
    """
    chunk = _CHUNKS_PER_BATCH * loop.limits.concurrency
    episodes = _take_up(path, len(jobs), chunk)
    failed = [i for i, e in enumerate(episodes) if e.failed]
    if not _too_many(len(failed), len(episodes), max_failure_rate):
        failed = []
    for index, episode in enumerate(episodes):
        if index not in failed:
            on_episode(episode)
    if failed:
        again = loop.play([jobs[index] for index in failed], on_episode)
        for index, episode in zip(failed, again, strict=True):
            episodes[index] = episode
        _rewrite(path, episodes)
        check_failures(episodes, max_failure_rate)
    finished = path.with_name(f".{path.name}.finished")
    for start in range(len(episodes), len(jobs), chunk):
        played = _play_chunk(loop, jobs[start : start + chunk], finished, on_episode)
        append_episodes(path, played)
        finished.unlink(missing_ok=True)
        episodes += played
        check_failures(episodes, max_failure_rate)
    return episodes


def _take_up(path: Path, jobs: int, chunk: int) -> list[Episode]:
    """Read the whole chunks of an earlier process, and cut the file down to them."""
    episodes = list(read_episodes(path))
    whole = len(episodes) if len(episodes) == jobs else len(episodes) // chunk * chunk
    if path.exists():
        keep_episodes(path, whole)
    return episodes[:whole]


def _play_chunk(
    loop: AgentLoop, jobs: Sequence[Job], finished: Path, on_episode: OnEpisode
) -> list[Episode]:
    """Play a chunk, but for the independent episodes that an earlier process finished."""
    done = {(e.task_id, e.seed): e for e in read_episodes(finished)}
    done = {key: e for job in jobs if (e := done.get(key := (job.task_id, job.seed)))}
    if finished.exists():
        _rewrite(finished, done.values())  # without a torn last line
    for episode in done.values():
        on_episode(episode)

    def keep(episode: Episode) -> None:
        if not len(episode.token_ids) and not episode.failed:
            append_episodes(finished, [episode])
        on_episode(episode)

    missing = [job for job in jobs if (job.task_id, job.seed) not in done]
    played = iter(loop.play(missing, keep))
    return [done.get((job.task_id, job.seed)) or next(played) for job in jobs]


def keep_episodes(path: Path, count: int) -> None:
    """Cut an episode file down to its first ``count`` episodes."""
    temporary = path.with_name(f".{path.name}.tmp")
    with path.open(encoding="utf-8") as lines, temporary.open("w", encoding="utf-8") as out:
        for _, line in zip(range(count), lines, strict=False):
            out.write(line)
    temporary.replace(path)


def _rewrite(path: Path, episodes: Iterable[Episode]) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    append_episodes(temporary, episodes)
    temporary.replace(path)


def check_failures(episodes: Sequence[Episode], max_rate: float) -> None:
    """Raise `InfrastructureError` when too many episodes failed; a few early ones may."""
    failed = [e for e in episodes if e.failed]
    if _too_many(len(failed), len(episodes), max_rate):
        example = failed[-1].outcome.error
        raise InfrastructureError(
            f"{len(failed)} of {len(episodes)} episodes failed for reasons of infrastructure, more "
            f"than max_failure_rate={max_rate} allows; the last one: {example}"
        )


def _too_many(failed: int, episodes: int, max_rate: float) -> bool:
    return failed > max(_FAILURES_ALLOWED, max_rate * episodes)
