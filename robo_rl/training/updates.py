"""Updates of a run: one learner step at a time, rolled back if it diverges."""

import time

from ..core import DivergenceError, Metrics
from .run import Run


class Updates:
    """Learner steps of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def step(self) -> Metrics | None:
        """Perform one learner step and measure its time; return None if the agent was rolled back.

        Raises:
            DivergenceError: if the step diverged, and :meth:`roll_back` does not help.
        """
        began = time.monotonic()
        try:
            metrics = self._run.learner.step()
        except DivergenceError as error:
            self.roll_back(error)
            return None
        self._run.update_seconds += time.monotonic() - began
        return metrics

    def roll_back(self, error: DivergenceError) -> None:
        """Restore the diverged agent from the newest good checkpoint.

        Raises:
            DivergenceError: ``error``, if there is no such checkpoint, or too many rollbacks in a row.
        """
        run, step, most = self._run, self._run.step, self._run.settings.rollbacks
        restored, count = run.rollbacks.roll_back(error, step), run.rollbacks.in_a_row
        way = f"the agent continues from step {restored} (rollback {count} of {most} in a row)"
        run.logger.message(f"Diverged at step {step}, {way}: {error}")
        run.logger.log("train", step, rolled_back_to=restored, rollbacks_in_a_row=count)
