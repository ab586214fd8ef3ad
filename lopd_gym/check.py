"""Check an environment: can its tasks be solved, does doing nothing fail, is it Gymnasium's?

The known solutions are `ToolEnv.oracle`'s. What `ToolEnv.impossible` names is left out and counted,
and where `ToolEnv.asks_for_nothing` says so, doing nothing has to succeed.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from gymnasium.utils.env_checker import check_env

from lopd_gym.env import ToolEnv
from lopd_gym.episode import GREEDY
from lopd_gym.errors import InfrastructureError, LopdGymError
from lopd_gym.loop import AgentLoop, Job, LoopLimits
from lopd_gym.messages import AssistantMessage, Observation
from lopd_gym.policy.scripted import Script, ScriptedPolicy, nothing, oracle
from lopd_gym.tasks import Task

_LIMITS = LoopLimits(concurrency=4)


@dataclass(frozen=True, slots=True)
class SplitCheck:
    """What came of a split's first tasks, as ids.

    Attributes:
        split: Its name.
        tasks: Those that were played.
        impossible: Those that were left out.
        known: Those with a known solution.
        solved: Those whose solution succeeded.
        for_nothing: Those that ask for nothing.
        idle: Those in which doing nothing succeeded.
    """

    split: str
    tasks: tuple[str, ...]
    impossible: tuple[str, ...]
    known: tuple[str, ...]
    solved: frozenset[str]
    for_nothing: frozenset[str]
    idle: frozenset[str]

    @property
    def unsolved(self) -> list[str]:
        """Tasks whose known solution failed."""
        return [i for i in self.known if i not in self.solved]

    @property
    def given_away(self) -> list[str]:
        """Tasks that ask for something, in which doing nothing succeeded."""
        return [i for i in self.tasks if i in self.idle - self.for_nothing]

    @property
    def not_given(self) -> list[str]:
        """Tasks that ask for nothing, in which doing nothing failed."""
        return [i for i in self.tasks if i in self.for_nothing - self.idle]

    @property
    def fault(self) -> str | None:
        """What is wrong, in a sentence; None where nothing is."""
        for expected, ids in (
            ("expected the known solutions to succeed, found that they fail in", self.unsolved),
            ("expected doing nothing to fail, found that it succeeds in", self.given_away),
            ("expected doing nothing to succeed where it is right, failed in", self.not_given),
        ):
            if ids:
                more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
                return f"Split '{self.split}': {expected} {', '.join(ids[:3])}{more}."
        return None


def check_split(make_env: Callable[[], ToolEnv], tasks: Sequence[Task]) -> SplitCheck:
    """Play tasks of one split with their known solutions, and doing nothing.

    Args:
        make_env: Makes environments that are set to the split.
        tasks: What to play.

    Raises:
        InfrastructureError: An episode failed for no reason of its own.
    """
    env = make_env()
    played = [t for t in tasks if not env.impossible(t)]
    ids = tuple(t.id for t in played)
    known = tuple(t.id for t in played if env.oracle(t) is not None)
    try:
        return SplitCheck(
            split=env.split,
            tasks=ids,
            impossible=tuple(t.id for t in tasks if env.impossible(t)),
            known=known,
            solved=_successes(make_env, oracle(env), known),
            for_nothing=frozenset(t.id for t in played if env.asks_for_nothing(t)),
            idle=_successes(make_env, nothing, ids),
        )
    finally:
        env.close()


def _successes(
    make_env: Callable[[], ToolEnv], script: Script, ids: Sequence[str]
) -> frozenset[str]:
    jobs = [Job(task_id, seed=0) for task_id in ids]
    with AgentLoop(make_env, ScriptedPolicy(script), GREEDY, _LIMITS) as loop:
        episodes = loop.play(jobs)
    for episode in episodes:
        if episode.failed:
            raise InfrastructureError(
                f"Task '{episode.task_id}' of split '{episode.split}' could not be played: "
                f"{episode.outcome.error}."
            )
    return frozenset(e.task_id for e in episodes if e.outcome.success)


def check_contract(env: ToolEnv, task: Task) -> str | None:
    """Run Gymnasium's own checker, then open a task twice and take one turn in it.

    Returns:
        What is wrong, in a sentence; None where nothing is.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it advises ranges of numbers, which text has not
            check_env(env, skip_render_check=True)
        first, again = _opening(env, task), _opening(env, task)
        if first != again:
            return f"Task '{task.id}': expected two resets to show the same, found a difference."
        messages, reward, *_ = env.step(AssistantMessage("What can I do for you?"))
        _plain(messages)
        if not 0 <= reward <= 1:
            return f"Task '{task.id}': expected a reward between 0 and 1, found {reward}."
    except LopdGymError:
        raise
    except Exception as err:  # an author's code, or an assertion of Gymnasium's, may raise anything
        return f"The environment breaks Gymnasium's contract: {type(err).__name__}: {err}"
    finally:
        env.close()
    return None


def _opening(env: ToolEnv, task: Task) -> str:
    messages, info = env.reset(seed=0, options={"task": task.id})
    return _plain(messages) + json.dumps([spec.as_openai() for spec in info["tools"]])


def _plain(messages: Observation) -> str:
    return json.dumps([asdict(message) for message in messages])
