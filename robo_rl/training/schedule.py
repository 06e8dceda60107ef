"""Schedule of evaluations and checkpoints in a run with separate actors."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from .evaluations import BackgroundEvaluations
from .pace import Pace
from .run import Run
from .wire import IDLE_SECONDS, Wire


@dataclass
class Evaluated:
    """Progress of a run at its last evaluation: steps learned from, and environment steps."""

    learned: float = 0.0
    step: int = 0

    def state(self) -> dict[str, Any]:
        """Return the entries for a checkpoint."""
        return {"learned_evaluation": self.learned, "evaluated_step": self.step}


@dataclass(frozen=True)
class _Snapshot:
    """Policy under evaluation: that of the checkpoint of ``step``, which learned from ``learned`` steps."""

    step: int
    updates: int
    learned: float


class BackgroundSchedule:
    """Evaluations and checkpoints of a run that learns while a copy of its policy is evaluated.

    The checkpoint of that policy is written when the evaluation begins, and receives its score when the evaluation
    ends. A run that is interrupted in between repeats the evaluation when it is resumed. If an evaluation is good
    enough to end the run, the run restores the evaluated policy first.

    Args:
        run: the run.
        background: makes the evaluations.
        pace: progress of the run.
        evaluated: progress of the run at its last evaluation.
        wire: holds actors while the run waits for an evaluation.
    """

    def __init__(
        self,
        run: Run,
        background: BackgroundEvaluations,
        pace: Pace,
        evaluated: Evaluated,
        wire: Wire,
    ) -> None:
        self._run, self._background = run, background
        self._pace, self._evaluated, self._wire = pace, evaluated, wire
        self._snapshot: _Snapshot | None = None
        self._saved_step = run.step

    @property
    def is_evaluating(self) -> bool:
        """Whether an evaluation is running."""
        return self._snapshot is not None

    def evaluate_or_save(self) -> bool:
        """Begin and end evaluations, and write checkpoints, when they are due; return whether the run is to end.

        While an evaluation is running, no checkpoint is due: it would lack the result of the evaluation.
        """
        interval, step, learned = self._run.settings.evaluation_interval, self._run.step, self._pace.learned
        latest = self._evaluated.learned if self._snapshot is None else self._snapshot.learned
        is_due = bool(interval) and learned // interval > latest // interval
        if is_due and self._snapshot is not None:
            self._await()
        if self._background.is_done() and self._end():
            return True
        if self._snapshot is None and (is_due or step - self._saved_step >= self._run.settings.checkpoint_interval):
            self._saved_step = step
            self._run.attempt(self._run.save)
            if is_due:
                self._begin()
        return False

    def save(self) -> None:
        """Write a checkpoint now, unless a running evaluation already has one of this step, which awaits its score."""
        if self._snapshot is None or self._snapshot.step != self._run.step:
            self._run.attempt(self._run.save)

    def finish(self, status: str) -> str:
        """Wait for a running evaluation; return the status that it gives the run, or else ``status``."""
        if status == "interrupted" or self._snapshot is None:
            return status
        self._await()
        if not self._background.is_done():
            return "interrupted"
        return "reached" if self._end() else status

    def _begin(self) -> None:
        step, updates = self._run.step, self._run.learner.updates
        policy = self._run.agent.policy_state()
        self._background.begin(step, updates, self._run.config.seed, policy)
        self._snapshot = _Snapshot(step, updates, self._pace.learned)

    def _await(self) -> None:
        """Wait until the running evaluation is done, or the run is interrupted."""
        self._run.report("evaluating")
        self._wire.hold(self._run.step)
        while not self._background.is_done() and self._run.interruption.signal is None:
            time.sleep(IDLE_SECONDS)

    def _end(self) -> bool:
        """Record the finished evaluation; return whether it was good enough to end the run."""
        assert self._snapshot is not None
        snapshot, self._snapshot = self._snapshot, None
        reached = self._run.reached = self._background.finish()
        self._evaluated.learned, self._evaluated.step = snapshot.learned, snapshot.step
        facts = self._run.evaluations.state(snapshot.updates) | {"reached": reached} | self._evaluated.state()
        self._run.attempt(partial(self._run.checkpoints.amend, snapshot.step, facts))
        if reached:
            self._run.attempt(partial(self._go_back, snapshot))
        return reached

    def _go_back(self, snapshot: _Snapshot) -> None:
        """Restore the agent of ``snapshot``, so that the run ends with the policy that was good enough."""
        checkpoint = self._run.checkpoints.load(snapshot.step, only=("agent",))
        self._run.agent.load(checkpoint.parts["agent"])
        self._run.learner.updates = self._run.policy_version = snapshot.updates
