"""The evaluations of a run: how good its policies are, and whether rewards rise without them."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..app import Components, RunConfig
from ..core import SafetyStop
from ..evaluation import EvaluationResult, evaluate
from ..evaluation.hacking import RewardWatch
from ..telemetry import RunLogger
from .interruption import Interruption

PERSON_POLL_SECONDS = 0.2
"""Between two looks whether a person has taken an emergency stop back."""

SOLVED = 0.95


class Evaluations:
    """Evaluates the present policy in episodes of their own, and remembers the results.

    Args:
        settings: of the run.
        parts: of the run.
        logger: takes results and warnings.
        interruption: ends the wait for a person.

    Attributes:
        steps_to_95: environment steps at the first evaluation of at least 95 % success.
        watch: looks for reward hacking where rewards are computed or learned; None where the task's own are used.
    """

    def __init__(self, settings: RunConfig, parts: Components, logger: RunLogger, interruption: Interruption) -> None:
        self._settings = settings
        self._parts = parts
        self._logger = logger
        self._interruption = interruption
        self._scored: tuple[int, float] | None = None
        self.steps_to_95: int | None = None
        self.watch = None if parts.reward.scorer is None else RewardWatch()

    def score(self, updates: int) -> float | None:
        """Return the success rate, or else the mean return, of the policy of ``updates`` learner steps, if known."""
        return self._scored[1] if self._scored is not None and self._scored[0] == updates else None

    def state(self, updates: int) -> dict[str, Any]:
        """Return JSON values for :meth:`load`; ``score`` is that of the policy of ``updates`` learner steps."""
        return {
            "score": self.score(updates),
            "steps_to_95": self.steps_to_95,
            "watch": None if self.watch is None else self.watch.state(),
        }

    def load(self, state: Mapping[str, Any], updates: int) -> None:
        """Take over what :meth:`state` returned."""
        self._scored = None if state["score"] is None else (updates, state["score"])
        self.steps_to_95 = state["steps_to_95"]
        if self.watch is not None:
            self.watch.load(state["watch"])

    def good_enough(self, step: int, updates: int, seed: int) -> bool:
        """Evaluate during training; return whether ``run.stop_at_success_rate`` or ``stop_at_return`` is reached."""
        settings = self._settings
        result = self(step, updates, seed, settings.evaluation_episodes)
        rate, wanted = result.success_rate, settings.stop_at_success_rate
        succeeds = wanted is not None and rate is not None and rate.value >= wanted
        return succeeds or (settings.stop_at_return is not None and result.return_mean >= settings.stop_at_return)

    def __call__(
        self, step: int, updates: int, seed: int, episodes: int, video: Path | None = None
    ) -> EvaluationResult:
        """Evaluate the policy.

        Args:
            step: environment steps so far.
            updates: learner steps so far.
            seed: of the start states.
            episodes: how many.
            video: file for the first of them, where the run makes videos.

        Raises:
            SafetyStop: if an episode cannot begin. For a stop that a person makes it waits, and begins anew.
        """
        result = self._evaluate(step, seed, episodes, video)
        rate = result.success_rate
        self._scored = updates, rate.value if rate else result.return_mean
        if rate and rate.value >= SOLVED and self.steps_to_95 is None:
            self.steps_to_95 = step
        self._logger.log(
            "evaluation",
            step,
            success_rate=rate.value if rate else None,
            episodes=episodes,
            return_mean=result.return_mean,
            length_median=result.length_median,
            lap_seconds_median=result.lap_seconds_median,
        )
        if self.watch is not None and (warning := self.watch.evaluated(step, rate.value if rate else None)):
            self._logger.message(warning)
            self._logger.log("reward", step, warning=warning)
        return result

    def _evaluate(self, step: int, seed: int, episodes: int, video: Path | None) -> EvaluationResult:
        backend, reward = self._parts.evaluation_backend(), self._parts.reward.task
        terms = backend.spec.reward_terms
        waits = False
        while True:
            try:
                return evaluate(
                    backend,
                    self._parts.agent,
                    episodes,
                    seed,
                    reward_weights=dict(zip(terms, reward.vector(terms).tolist(), strict=True)),
                    reward_offset=reward.offset,
                    video=video if self._settings.video_episodes else None,
                    video_episodes=self._settings.video_episodes,
                )
            except SafetyStop as stop:
                if not stop.by_person or self._interruption.signal is not None:
                    raise
                if not waits:
                    self._logger.message(f"Evaluation stopped at step {step}: {stop}")
                waits = True
                time.sleep(PERSON_POLL_SECONDS)
