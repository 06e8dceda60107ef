"""Evaluations of a run: the performance of its policies, and a check for reward hacking."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..app import Components, RunConfig
from ..core import (
    CONSTRAINT,
    Agent,
    Interruption,
    Policy,
    RenderingError,
    SafetyStop,
    State,
    find_constraints,
    finite_number,
    whole_number,
)
from ..evaluation import CycleTime, EvaluationResult, evaluate, film_problem, no_time_limit
from ..evaluation.hacking import RewardWatch
from ..telemetry import RunLogger

PERSON_POLL_SECONDS = 0.2
"""Interval between two checks whether a person has released an emergency stop [s]."""

SOLVED = 0.95


def check_evaluations(parts: Components) -> None:
    """Check before the first step that the evaluations of a run are possible.

    Raises:
        ConfigError: if the task cannot be built a second time, or has no time limit.
    """
    spec = parts.evaluation_backend().spec
    if spec.max_episode_steps is None:
        raise no_time_limit(spec.task)


class Evaluations:
    """Evaluates the current policy in separate episodes, and remembers the results.

    Args:
        settings: settings of the run.
        parts: components of the run.
        logger: receives results and warnings.
        interruption: ends the wait for a person.
        demonstrated: cycle time of the demonstrations, logged beside that of the policy; None if unknown.
        demonstrated_rate: share of successful demonstrations, logged beside that of the policy; None if unknown.

    Attributes:
        steps_to_95: environment steps at the first evaluation with at least 95 % success.
        watch: detects reward hacking if rewards are computed or learned; None if the task's own rewards are used.
    """

    def __init__(
        self,
        settings: RunConfig,
        parts: Components,
        logger: RunLogger,
        interruption: Interruption,
        demonstrated: CycleTime | None = None,
        demonstrated_rate: float | None = None,
    ) -> None:
        self._settings = settings
        self._demonstrated, self._demonstrated_rate = demonstrated, demonstrated_rate
        self._parts = parts
        self._logger = logger
        self._interruption = interruption
        self._scored: tuple[int, float] | None = None
        self.steps_to_95: int | None = None
        self.watch = RewardWatch() if parts.reward.scorer is not None and parts.reward.scorer.modules else None
        spec = parts.evaluation_backend().spec
        if not spec.reports_success:
            hint = (
                " To read it from a key of info, use task.success_key=KEY" if spec.action_space == "gymnasium" else ""
            )
            logger.message(
                f"Success is unknown: {spec.task} does not report it. Evaluations compare returns, and "
                f"run.stop_at_success_rate has no effect.{hint}"
            )

    def check_video(self, video: Path) -> None:
        """Report, before the first step, if the run should make a video but cannot."""
        if self._settings.video_episodes and (problem := film_problem(self._parts.evaluation_backend(), video)):
            self._logger.message(f"There will be no video: {problem}")

    def score(self, updates: int) -> float | None:
        """Return the success rate, or else the mean return, of the policy after ``updates`` learner steps, if known.

        The share of the constraints that it did not keep is subtracted.

        The score is unknown if reward modules compute the reward and success is not reported. The task's own return
        measures something else: that of a humanoid rewards running, even if the modules reward kneeling.
        """
        return self._scored[1] if self._scored is not None and self._scored[0] == updates else None

    def state(self, updates: int) -> dict[str, Any]:
        """Return JSON values for :meth:`load`; ``score`` is that of the policy after ``updates`` learner steps."""
        return {
            "score": self.score(updates),
            "steps_to_95": self.steps_to_95,
            "watch": None if self.watch is None else self.watch.state(),
        }

    def load(self, state: Mapping[str, Any], updates: int, step: int) -> None:
        """Restore what :meth:`state` returned, after ``updates`` learner steps and ``step`` environment steps.

        A run with separate actors may resume from before its checkpoint: its log ends before later evaluations.
        """
        self._scored = None if state["score"] is None else (updates, finite_number(state["score"]))
        solved = None if state["steps_to_95"] is None else whole_number(state["steps_to_95"])
        self.steps_to_95 = solved if solved is None or solved <= step else None
        if self.watch is not None:
            self.watch.load(state["watch"])

    def good_enough(self, step: int, updates: int, seed: int) -> bool:
        """Evaluate during training; return whether ``run.stop_at_success_rate`` or ``stop_at_return`` is reached."""
        return self.suffices(self(step, updates, seed, self._settings.evaluation_episodes))

    def goal(self) -> str:
        """Return the options that define when an evaluation is good enough to end the run."""
        settings = self._settings
        goals = {"success_rate": settings.stop_at_success_rate, "return": settings.stop_at_return}
        goals_set = [f"run.stop_at_{name}={value:g}" for name, value in goals.items() if value is not None]
        return " or ".join(goals_set) or "a goal that has since been removed"

    def suffices(self, result: EvaluationResult) -> bool:
        """Return whether a result is good enough to end the run: all constraints must be kept."""
        settings = self._settings
        rate, wanted = result.success_rate, settings.stop_at_success_rate
        succeeds = wanted is not None and rate is not None and rate.value >= wanted
        returned = settings.stop_at_return is not None and result.return_mean >= settings.stop_at_return
        return (succeeds or returned) and all(outcome.kept for outcome in result.constraints)

    def __call__(
        self, step: int, updates: int, seed: int, episodes: int, video: Path | None = None
    ) -> EvaluationResult:
        """Evaluate the current policy.

        Args:
            step: number of environment steps so far.
            updates: number of learner steps so far.
            seed: seed of the start states.
            episodes: number of episodes.
            video: file for the first of them, if the run makes videos and a graphics library is available.

        Raises:
            SafetyStop: if an episode cannot begin. If a person stopped the robot, this waits and starts again.
        """
        wall_seconds = self._logger.wall_seconds
        try:
            result = self.evaluate(self._parts.agent, step, seed, episodes, video)
        except RenderingError as error:
            if video is None:
                raise
            self._logger.message(f"No video: {error}")
            result = self.evaluate(self._parts.agent, step, seed, episodes)
        if result.video_problem:
            self._logger.message(f"No video: {result.video_problem}")
        self.note(step, updates, wall_seconds, result)
        return result

    def note(self, step: int, updates: int, wall_seconds: float, result: EvaluationResult) -> None:
        """Remember and log the result of the policy as it was at ``wall_seconds``."""
        rate, cycle_time = result.success_rate, result.cycle_time
        if rate is not None or self.watch is None:
            # If a task reports success only in some episodes, its score is the return, which every evaluation has.
            always_reported = rate is not None and self._parts.evaluation_backend().spec.reports_success
            # A policy that keeps its limits is better than one that does not, however often the task is solved.
            exceeded = sum(not outcome.kept for outcome in result.constraints) / max(len(result.constraints), 1)
            self._scored = updates, (rate.value if rate and always_reported else result.return_mean) - exceeded
        if rate and rate.value >= SOLVED and self.steps_to_95 is None:
            self.steps_to_95 = step
        self._logger.log(
            "evaluation",
            step,
            wall_seconds=wall_seconds,
            success_rate=rate.value if rate else None,
            episodes=len(result.episodes),
            return_mean=result.return_mean,
            length_median=result.length_median,
            success_seconds_median=cycle_time.median if cycle_time else None,
            successes_per_hour=cycle_time.successes_per_hour if cycle_time else None,
            demonstrations_seconds_median=self._demonstrated.median if self._demonstrated else None,
            demonstrations_success_rate=self._demonstrated_rate,
            lap_seconds_median=result.lap_seconds_median,
            **{f"reached/{name}": share for name, share in result.reached.items()},
            **{f"{CONSTRAINT}{outcome.limit.name}": outcome.value for outcome in result.constraints},
        )
        if self.watch is not None and (warning := self.watch.evaluated(step, rate.value if rate else None)):
            self._logger.message(warning)
            self._logger.log("reward", step, warning=warning)

    def evaluate(
        self,
        policy: Policy,
        step: int,
        seed: int,
        episodes: int,
        video: Path | None = None,
        check_wanted: Callable[[], None] = lambda: None,
    ) -> EvaluationResult:
        """Return the result of a policy without remembering it.

        Args:
            policy: the policy to evaluate.
            step: number of environment steps so far.
            seed: seed of the start states.
            episodes: number of episodes.
            video: file for the first of them.
            check_wanted: called between two episodes; raises an error if the result is no longer needed.

        Raises:
            SafetyStop: see :meth:`__call__`.
        """
        backend, reward = self._parts.evaluation_backend(), self._parts.reward.task
        terms = backend.spec.reward_terms
        waits = False
        while True:
            try:
                return evaluate(
                    backend,
                    policy,
                    episodes,
                    seed,
                    reward_weights=dict(zip(terms, reward.vector(terms).tolist(), strict=True)),
                    reward_offset=reward.offset,
                    constraints=find_constraints(self._parts.reward),
                    video=video if self._settings.video_episodes else None,
                    video_episodes=self._settings.video_episodes,
                    on_episode=lambda _: check_wanted(),
                )
            except SafetyStop as stop:
                check_wanted()
                if not stop.waits or self._interruption.signal is not None:
                    raise
                if not waits:
                    self._logger.message(f"Evaluation stopped at step {step}: {stop}")
                waits = True
                time.sleep(PERSON_POLL_SECONDS)


@dataclass(frozen=True)
class _Open:
    """Running evaluation of the policy at ``step``, ``updates`` and ``wall_seconds``."""

    step: int
    updates: int
    wall_seconds: float
    result: Future[EvaluationResult]


class BackgroundEvaluations:
    """Evaluates a copy of the policy in a thread while the agent continues to learn; one evaluation at a time.

    A thread suffices, because the costly parts, updates and physics steps, release the interpreter lock. It also avoids
    starting, feeding and killing a process.

    Args:
        evaluations: evaluations of the run; receives the results.
        settings: settings of the run.
        logger: logger of the run, which measures the time.
        make_copy: makes an agent like that of the run, to load its policies into.
    """

    def __init__(
        self, evaluations: Evaluations, settings: RunConfig, logger: RunLogger, make_copy: Callable[[], Agent]
    ) -> None:
        self._evaluations, self._settings, self._logger = evaluations, settings, logger
        self._make_copy = make_copy
        self._copy: Agent | None = None
        self._thread = ThreadPoolExecutor(1, "evaluation")
        self._open: _Open | None = None
        self._cancelled = threading.Event()

    def begin(self, step: int, updates: int, seed: int, policy: State) -> None:
        """Begin an evaluation during training of ``policy``, the policy at ``step`` and ``updates``."""
        if self._open is not None:
            raise RuntimeError("an evaluation is running: finish or cancel it first")
        if self._copy is None:
            self._copy = self._make_copy()
        self._copy.load_policy(policy)
        evaluate, episodes = self._evaluations.evaluate, self._settings.evaluation_episodes
        result = self._thread.submit(evaluate, self._copy, step, seed, episodes, check_wanted=self._check_wanted)
        self._open = _Open(step, updates, self._logger.wall_seconds, result)

    def is_done(self) -> bool:
        """Return whether an evaluation has ended, so that :meth:`finish` returns its result without waiting."""
        return self._open is not None and self._open.result.done()

    def finish(self) -> bool:
        """Record the result of the current evaluation; return whether it is good enough to end the run.

        Raises:
            SafetyStop: as in an evaluation in the foreground.
        """
        assert self._open is not None
        done, self._open = self._open, None
        result = done.result.result()
        self._evaluations.note(done.step, done.updates, done.wall_seconds, result)
        return self._evaluations.suffices(result)

    def cancel(self) -> None:
        """End a running evaluation after its current episode, without recording a result."""
        if self._open is not None:
            self._cancelled.set()
            self._open.result.exception()
            self._cancelled.clear()
            self._open = None

    def close(self) -> None:
        """End the thread."""
        self.cancel()
        self._thread.shutdown()

    def _check_wanted(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError
