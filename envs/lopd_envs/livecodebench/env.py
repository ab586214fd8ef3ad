"""`LiveCodeBenchEnv`: contest problems as an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import fmean
from typing import ClassVar

from lopd_envs.code.env import CodeEnv
from lopd_envs.code.values import shown
from lopd_envs.code.verdicts import Verdict
from lopd_envs.livecodebench.compare import Comparison
from lopd_envs.livecodebench.corpus import Corpus, Problem
from lopd_envs.livecodebench.grading import judge
from lopd_envs.livecodebench.windows import ERRATA, Window, split_ids
from lopd_gym.env import EpisodeRules
from lopd_gym.episode import Episode
from lopd_gym.messages import AssistantMessage
from lopd_gym.sandbox import Sandbox
from lopd_gym.tasks import TRAIN_SPLIT, Check, Task

_PROGRAM = "Write a Python program that reads from standard input and prints the answer."
_METHOD = "Complete this Python code:"


class LiveCodeBenchEnv(CodeEnv):
    """Contest problems, judged by public and private tests; the splits are windows of dates."""

    name: ClassVar[str] = "livecodebench"

    def __init__(
        self,
        corpus: Corpus,
        sandbox: Sandbox,
        split: str = TRAIN_SPLIT,
        rules: EpisodeRules | None = None,
        protocol: str = "turns",
        comparison: Comparison = "official",
        window: Window | None = None,
    ) -> None:
        super().__init__(sandbox, split, rules, protocol)
        self._corpus = corpus
        self._comparison = comparison
        self._window = window
        self.tasks(split)

    @property
    def label(self) -> str:
        """What scores are labelled with."""
        parts = [self.name, self._corpus.name, "strict" if self._comparison == "strict" else ""]
        return ":".join(p for p in parts if p)

    @cached_property
    def _tasks(self) -> dict[str, dict[str, Task]]:
        ids = split_ids(self._corpus, self._window)
        return {split: {i: self._task(i, split) for i in ids[split]} for split in ids}

    def _task(self, problem_id: str, split: str) -> Task:
        problem = self._corpus.problems[problem_id]
        form = (
            f"{_METHOD}\n```python\n{problem.starter_code}\n```" if problem.function else _PROGRAM
        )
        statement = f"{problem.title}\n\n{problem.statement}\n\n{form}"
        return Task(problem_id, split, self.opening(statement), problem.difficulty)

    def data_hash(self) -> str:
        """Return the hash of the loaded problems, tests included."""
        return self._corpus.hash

    def entry_point(self, task: Task) -> str:
        """Return the class to write, or nothing for a whole program."""
        return "Solution" if self._corpus.problems[task.id].function else ""

    def oracle(self, task: Task) -> Sequence[AssistantMessage] | None:
        """Return a reference as a reply; the benchmark comes with none."""
        program = self._corpus.references.get(task.id)
        return None if program is None else [AssistantMessage(f"```python\n{program}\n```")]

    def judge(self, task: Task, code: str | None) -> tuple[Check, ...]:
        """Judge a submission by all tests.

        Raises:
            DataError: The problem's tests cannot be read.
            InfrastructureError: The machinery broke, so that nothing can be said.
        """
        if code is None:
            return (Check("tests", False, "nothing was submitted"),)
        problem = self._corpus.problems[task.id]
        found = judge(self.sandbox, problem, code, problem.tests(), self._comparison)
        return (Check("tests", found.accepted, None if found.accepted else found.verdict.value),)

    def try_examples(self, task: Task, code: str) -> str:
        """Run the tests that the statement shows, up to the first that fails."""
        problem = self._corpus.problems[task.id]
        found = judge(self.sandbox, problem, code, problem.public, self._comparison)
        if found.accepted:
            return f"All {found.total} examples passed."
        test = problem.public[found.passed]
        expected = f"expected {shown(test.output)}"
        said = found.detail
        if found.verdict is Verdict.WRONG_ANSWER:
            said = f"{expected}, got {shown(said)}" if said else expected
        return (
            f"{found.passed} of {found.total} examples passed. Input {shown(test.input)}: "
            f"{found.verdict.value}: {said}"
        )

    def figures(self, episodes: Sequence[Episode]) -> Mapping[str, Mapping[str, float]]:
        """Return pass@1 overall, by difficulty, and without the problems of the errata.

        As LiveCodeBench has it, this is the mean over problems of the share of passed samples.
        """
        passed: dict[str, list[bool]] = {}
        for episode in episodes:
            if not episode.failed:
                passed.setdefault(episode.task_id, []).append(episode.outcome.success)
        problems = [self._corpus.problems[i] for i in passed]
        rows = {"all": problems, "without errata": [p for p in problems if not _faulty(p)]}
        for difficulty in ("easy", "medium", "hard"):
            rows[difficulty] = [p for p in problems if p.difficulty == difficulty]
        return {
            name: {"pass@1": fmean(fmean(passed[p.id]) for p in chosen), "problems": len(chosen)}
            for name, chosen in rows.items()
            if chosen
        }


def _faulty(problem: Problem) -> bool:
    return problem.id in ERRATA or problem.title in ERRATA
