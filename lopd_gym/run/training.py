"""The run: baseline evaluation, bank, warm-up, training, final evaluation, export.

Every phase leaves its result in the run's folder before the next begins, and training leaves a
checkpoint after every step. A run that was killed at any moment goes on from there, and on a CPU
ends with the same numbers as an undisturbed one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lopd_gym.bank import Bank, experience_from, get_embedder
from lopd_gym.env import episode_seed
from lopd_gym.episode import GREEDY, Episode, Sampling, append_episodes
from lopd_gym.errors import UsageError
from lopd_gym.learner import Learner, LearnerContext
from lopd_gym.loop import AgentLoop
from lopd_gym.policy.backbone import Backbone
from lopd_gym.policy.base import Policy
from lopd_gym.policy.model_policy import Weights
from lopd_gym.policy.scripted import ScriptedPolicy, nothing, oracle
from lopd_gym.run.build import (
    checked_env,
    learner_needs,
    learner_type,
    load_backbone,
    model_policy,
)
from lopd_gym.run.checkpoint import Checkpoints
from lopd_gym.run.evaluation import Evaluation, evaluate, evaluation_modes, evaluation_tasks
from lopd_gym.run.folder import RunFolder, append_line, read_json, read_lines, write_json
from lopd_gym.run.phase import check_failures, keep_episodes
from lopd_gym.run.progress import Reporter
from lopd_gym.run.rollouts import play_for_bank, training_jobs, training_loop
from lopd_gym.run.settings import Budget, RunSettings
from lopd_gym.run.summary import Summary
from lopd_gym.run.tracking import Tracker, open_tracker
from lopd_gym.tasks import TRAIN_SPLIT


class TrainingRun:
    """One training run in its folder. `go` does all that is not done yet."""

    def __init__(self, settings: RunSettings, folder: RunFolder, reporter: Reporter) -> None:
        self.settings = settings
        self.folder = folder
        self.reporter = reporter
        self.env = checked_env(settings.env, settings.evaluation.split)
        self.train_tasks = self.env.tasks(TRAIN_SPLIT)
        self._needs = learner_needs(settings.learner)
        self.budget = Budget.of(settings, self._needs)
        self._embedder = get_embedder(settings.embedder)
        if settings.bank_from is not None and not Path(settings.bank_from).is_file():
            raise UsageError(f"bank_from: there is no file of experiences '{settings.bank_from}'.")
        self.checkpoints = Checkpoints(folder.path / "checkpoints")
        self.evaluations: dict[str, Evaluation] = {}
        self.bank_tokens = 0
        self.trained_steps = 0
        self._timings_file = folder.path / "timings.json"
        known = read_json(self._timings_file) if self._timings_file.exists() else {}
        self.minutes: dict[str, float] = known

    def go(self) -> Summary:
        """Run every phase that is not done yet and return the final numbers."""
        with self._timed("load"):
            self.backbone: Backbone = load_backbone(self.settings)
        with self._timed("baseline"):
            self._baseline()
        learner, needs = self._make_learner(), self._needs
        with self._timed("bank"):
            successes = self._fill_bank() if needs.bank else []
        if needs.solved_tasks:
            self._keep_solved_tasks()
        teachable = not needs.bank or self._something_to_learn_from()
        done = self._resume_or_warm_up(learner, successes) if teachable else 0
        with open_tracker(self.settings, self.folder, done) as tracker:
            if teachable:
                self._train(learner, done, tracker)
            with self._timed("final evaluation"):
                self._evaluate_model("student", "student", self.settings.evaluation.tasks)
            tracker.log(self.trained_steps, self._final_numbers())
        with self._timed("export"):
            self.backbone.export_student(self.folder.student)
        summary = Summary.build(self)
        write_json(self.folder.summary, summary.to_json())
        return summary

    # -- phases ------------------------------------------------------------------------------

    def _baseline(self) -> None:
        count = self.settings.evaluation.tasks
        self._evaluate_scripts(count)
        self._evaluate_model("base", "base", count)

    def _evaluate_scripts(self, count: int) -> None:
        ids = evaluation_tasks(self.env, self.settings.evaluation.split, count)
        self._evaluate("nothing", ScriptedPolicy(nothing), GREEDY, ids)
        first = self.env.find(ids[0])
        if self.env.oracle(first) is not None:
            self._evaluate("oracle", ScriptedPolicy(oracle(self.env)), GREEDY, ids)

    def _make_learner(self) -> Learner:
        kind, config = learner_type(self.settings.learner)
        torch.manual_seed(episode_seed(self.settings.seed, "learner"))
        self.bank = Bank.open(self.folder.bank, self._embedder)
        context = LearnerContext(self.backbone, self.bank, self.settings.seed, self.folder.path)
        return kind(config, context)

    def _fill_bank(self) -> list[Episode]:
        """Play the base policy on training tasks; its successes become experiences."""
        count = self.budget.bank
        if self.settings.bank_from is not None:
            self.bank.import_jsonl(self.settings.bank_from)
        if count == 0:
            return []
        path = self.folder.episodes("bank")
        episodes = play_for_bank(
            self.backbone, self.train_tasks, count, self.settings, path, self.reporter
        )
        self.bank_tokens = sum(e.sampled_tokens for e in episodes)
        worth = self.settings.bank_min_score
        remembered = [(e, x) for e in episodes if (x := experience_from(e, worth)) is not None]
        self.bank.add([experience for _, experience in remembered])
        self.reporter.say(f"bank: {len(remembered)} experiences from {count} rollouts")
        return [episode for episode, _ in remembered]

    def _something_to_learn_from(self) -> bool:
        """Whether the bank holds an experience, and there is a task; says so where not."""
        if len(self.bank) and len(self.train_tasks):
            return True
        self.reporter.say(
            f"NO TRAINING: no episode that fills the bank scored {self.settings.bank_min_score} or "
            "more, so there is no experience to learn from and the student stays as the base. "
            "Raise learner.bank_rollouts, lower bank_min_score, start from a stronger model, or "
            "name a file of experiences with bank_from."
        )
        return False

    def _keep_solved_tasks(self) -> None:
        """Train on tasks that the bank holds a success of, and on no other."""
        solved = {x.task_id for x in self.bank if x.env == self.env.label}
        self.train_tasks = [task for task in self.train_tasks if task.id in solved]
        self.reporter.say(f"training on the {len(self.train_tasks)} tasks that the bank solved")

    def _resume_or_warm_up(self, learner: Learner, successes: Sequence[Episode]) -> int:
        """Go back to the newest checkpoint, or make the first; returns its step."""
        done = self._restore(learner)
        if done is not None:
            return done
        with self._timed("warm-up"), self.reporter.phase("warm up", 1) as phase:
            torch.manual_seed(episode_seed(self.settings.seed, "prepare"))
            learner.prepare(successes, lambda d, n, m: phase.advance(0, note=f"{d}/{n}"))
            phase.advance()
        self._save(learner, 0)
        return 0

    def _train(self, learner: Learner, done: int, tracker: Tracker) -> None:
        steps = self.budget.steps
        policy = model_policy(self.backbone, "student", self.settings.sampling, self.settings)
        with (
            training_loop(policy, self.settings) as loop,
            self.reporter.phase("train", steps) as phase,
        ):
            phase.advance(done)
            for step in range(done + 1, steps + 1):
                with self._timed("training"):
                    metrics = self._step(learner, loop, step)
                    tracker.log(step, {f"train/{k}": v for k, v in metrics.items()})
                    self._save(learner, step)
                phase.advance(note=f"success {metrics['success']:.2f}")
                if point := self._curve_point(step):
                    tracker.log(step, point)
        self.trained_steps = steps

    def _curve_point(self, step: int) -> dict[str, float]:
        """Evaluate the student after ``step``, if this step is one of the curve's.

        Returns:
            Its success in each mode.
        """
        evaluation, name = self.settings.evaluation, curve_name(step)
        if not evaluation.every or step % evaluation.every or not 0 < step < self.budget.steps:
            return {}
        with self._timed("curve"):
            self._evaluate_model(name, "student", evaluation.curve_tasks)
        modes = evaluation_modes(self.settings)
        return {f"eval/{m}": self.evaluations[f"{name}-{m}"].success().mean for m in modes}

    def _step(self, learner: Learner, loop: AgentLoop, step: int) -> dict[str, float]:
        """One training step: roll out with the current student, update, record."""
        started = time.perf_counter()
        settings, count = self.settings, self.settings.episodes_per_step
        first = (step - 1) * count
        group = self._needs.episodes_per_task
        jobs = training_jobs(self.train_tasks, settings.seed, "train", first, count, group)
        episodes = loop.play(jobs)
        check_failures(episodes, settings.max_failure_rate)
        rollout_s = time.perf_counter() - started
        torch.manual_seed(episode_seed(settings.seed, "update", step))
        update = learner.update([e for e in episodes if not e.failed])
        metrics = {
            "step": step,
            "rollouts": self.budget.bank + step * count,
            **rollout_metrics(episodes),
            **update,
            "rollout_s": rollout_s,
            "update_s": time.perf_counter() - started - rollout_s,
        }
        append_episodes(self.folder.episodes("train"), episodes)
        append_line(self.folder.metrics, metrics)
        if self._needs.growing_bank:
            self.bank.fill(episodes, settings.bank_min_score)
        return metrics

    # -- checkpoints -------------------------------------------------------------------------

    def _save(self, learner: Learner, step: int) -> None:
        state = {
            "student": self.backbone.student_state(),
            "learner": learner.state_dict(),
            "experiences": len(self.bank),
        }
        self.checkpoints.save(step, state)

    def _restore(self, learner: Learner) -> int | None:
        """Load the newest checkpoint and forget what came after it; returns its step."""
        steps = self.checkpoints.steps()
        if not steps:
            return None
        step = steps[-1]
        state = self.checkpoints.load(step)
        self.backbone.load_student_state(state["student"])
        learner.load_state_dict(state["learner"])
        self.bank.keep(state["experiences"])
        train = self.folder.episodes("train")
        if train.exists():
            keep_episodes(train, step * self.settings.episodes_per_step)
        rows = [row for row in read_lines(self.folder.metrics) if row["step"] <= step]
        self.folder.metrics.unlink(missing_ok=True)
        for row in rows:
            append_line(self.folder.metrics, row)
        for earlier in range(1, step + 1):
            self._curve_point(earlier)
        return step

    # -- evaluation --------------------------------------------------------------------------

    def _evaluate_model(self, name: str, weights: Weights, count: int) -> None:
        settings = self.settings
        ids = evaluation_tasks(self.env, settings.evaluation.split, count)
        for mode, sampling in evaluation_modes(settings).items():
            policy = model_policy(self.backbone, weights, sampling, settings)
            self._evaluate(f"{name}-{mode}", policy, sampling, ids)

    def _evaluate(self, name: str, policy: Policy, sampling: Sampling, ids: Sequence[str]) -> None:
        path = self.folder.episodes(name)
        evaluation = evaluate(name, policy, sampling, ids, self.settings, path, self.reporter)
        self.evaluations[name] = evaluation

    def _final_numbers(self) -> dict[str, float]:
        """Return what a tracker shows of the final evaluation, by mode; gains are over the base."""
        numbers: dict[str, float] = {}
        for mode in evaluation_modes(self.settings):
            final, base = (self.evaluations[f"{name}-{mode}"] for name in ("student", "base"))
            found = {
                "success": final.success(),
                "score": final.score(),
                "gain": final.gain_over(base),
            }
            numbers |= {f"final/{mode}/{name}": value.mean for name, value in found.items()}
        return numbers

    # -- helpers -----------------------------------------------------------------------------

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        """Add the wall time of a block to the phase's minutes, also across resumes."""
        started = time.perf_counter()
        yield
        spent = (time.perf_counter() - started) / 60
        self.minutes[phase] = self.minutes.get(phase, 0.0) + spent
        write_json(self._timings_file, self.minutes)


def curve_name(step: int) -> str:
    """Return the name of the evaluation after a training step."""
    return f"step-{step:06d}"


def rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Averages over the episodes of one step that did not fail."""
    played = [e for e in episodes if not e.failed]
    count = max(1, len(played))
    values: dict[str, Any] = {
        "score": sum(e.outcome.score or 0.0 for e in played) / count,
        "success": sum(e.outcome.success for e in played) / count,
        "turns": sum(e.turns for e in played) / count,
        "calls": sum(len(e.actions) for e in played) / count,
        "response_tokens": sum(e.sampled_tokens for e in played) / count,
        "entropy": _entropy(played),
        "parse_errors": sum(e.parse_errors for e in played) / count,
        "played": len(played),
        "failed": len(episodes) - len(played),
    }
    return values


def _entropy(episodes: Sequence[Episode]) -> float:
    """Mean of -log p at the sampled tokens, p as they were drawn: the entropy in nats."""
    drawn = [e.logprobs[e.loss_mask] for e in episodes]
    return -float(np.concatenate(drawn).mean()) if any(map(len, drawn)) else 0.0
