"""`EvalPlusEnv`: HumanEval+ and MBPP+ as an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from lopd_envs.code.calls import Candidate, call_all
from lopd_envs.code.driver import Malformed, decode, encode_whole
from lopd_envs.code.env import CodeEnv
from lopd_envs.code.values import shown
from lopd_envs.code.verdicts import Verdict
from lopd_envs.evalplus.corpus import Corpus, Problem
from lopd_envs.evalplus.examples import CONTRADICTORY, Example, find_examples
from lopd_envs.evalplus.grading import MIN_CPU_S, Grader
from lopd_envs.evalplus.oracles import accepts
from lopd_envs.evalplus.scoring import report
from lopd_envs.evalplus.splits import split_ids
from lopd_gym.env import EpisodeRules
from lopd_gym.episode import Episode
from lopd_gym.messages import AssistantMessage
from lopd_gym.sandbox import Sandbox
from lopd_gym.tasks import TRAIN_SPLIT, Check, Task

_INSTRUCTION = "Write a self-contained Python program that solves this problem:"


class EvalPlusEnv(CodeEnv):
    """Functions to write, judged by EvalPlus' base and plus tests.

    The checks are ``base`` and ``plus``; as in EvalPlus, a solution counts when both pass.
    """

    name: ClassVar[str] = "evalplus"

    def __init__(
        self,
        corpus: Corpus,
        grader: Grader,
        sandbox: Sandbox,
        split: str = TRAIN_SPLIT,
        rules: EpisodeRules | None = None,
        protocol: str = "turns",
    ) -> None:
        super().__init__(sandbox, split, rules, protocol)
        self._corpus = corpus
        self._grader = grader
        self.tasks(split)

    @property
    def label(self) -> str:
        """What scores are labelled with."""
        return f"{self.name}:{self._corpus.name}" if self._corpus.name else self.name

    @cached_property
    def _tasks(self) -> dict[str, dict[str, Task]]:
        ids = split_ids(self._corpus)
        return {split: {i: self._task(i, split) for i in ids[split]} for split in ids}

    def _task(self, problem_id: str, split: str) -> Task:
        prompt = self._corpus.problems[problem_id].prompt
        statement = f"{_INSTRUCTION}\n```python\n{prompt.strip()}\n```"
        group = problem_id.partition("/")[0]
        return Task(problem_id, split, self.opening(statement), group)

    def data_hash(self) -> str:
        """Return the hash of the loaded problems."""
        return self._corpus.hash

    def entry_point(self, task: Task) -> str:
        """Return the name of the function to write."""
        return self._corpus.problems[task.id].entry_point

    def oracle(self, task: Task) -> Sequence[AssistantMessage]:
        """Return the reference as a reply."""
        return [AssistantMessage(f"```python\n{self._corpus.problems[task.id].reference}\n```")]

    def judge(self, task: Task, code: str | None) -> tuple[Check, ...]:
        """Judge a submission by base and plus tests.

        Raises:
            InfrastructureError: The machinery broke, so that nothing can be said.
        """
        if code is None:
            reason = "nothing was submitted"
            return Check("base", False, reason), Check("plus", False, reason)
        grade = self._grader.grade(self._corpus.problems[task.id], code, self.sandbox)
        said = grade.judgement.verdict.value
        return (
            Check("base", grade.base_passed, None if grade.base_passed else said),
            Check("plus", grade.plus_passed, None if grade.plus_passed else said),
        )

    def figures(self, episodes: Sequence[Episode]) -> Mapping[str, Mapping[str, float]]:
        """Return pass@k for base and plus; nothing where tasks of the split are missing."""
        ids = [t.id for t in self.tasks(self.split)]
        finished = {e.task_id for e in episodes if not e.failed}
        return report(episodes, ids) if finished.issuperset(ids) else {}

    def try_examples(self, task: Task, code: str) -> str:
        """Run the examples in the statement up to the first that fails."""
        problem = self._corpus.problems[task.id]
        examples = find_examples(problem.prompt, problem.entry_point)
        if task.id in CONTRADICTORY:
            examples = []
        if not examples:
            return "This task shows no examples that can be run."
        inputs = [encode_whole(e.arguments) for e in examples]
        candidate = Candidate(code, problem.entry_point)
        calls = call_all(self.sandbox, candidate, inputs, [MIN_CPU_S] * len(inputs))
        for number, (example, call) in enumerate(zip(examples, calls, strict=False)):
            wrong = _difference(problem, example, call.value)
            if call.verdict is not Verdict.ACCEPTED:
                wrong = f"{call.verdict.value}: {call.detail}"
            if wrong:
                return f"{number} of {len(examples)} examples passed. {example.text}: {wrong}"
        return f"All {len(examples)} examples passed."


def _difference(problem: Problem, example: Example, text: str | None) -> str:
    try:
        value = decode(text or "")
    except Malformed as err:
        return str(err)
    right = accepts(
        problem.id,
        problem.entry_point,
        example.arguments,
        value,
        example.expected,
        problem.tolerance,
    )
    return "" if right else f"expected {shown(example.expected)}, got {shown(value)}"
