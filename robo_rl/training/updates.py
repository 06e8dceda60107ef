"""The updates of a run: one learner step at a time, taken back where it diverges."""

import time

from ..core import DivergenceError, Metrics
from .run import Run


class Updates:
    """Learner steps of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def step(self) -> Metrics | None:
        """Do one learner step, and note the time that it takes; return None where it was taken back.

        Raises:
            DivergenceError: if it diverged, and :meth:`roll_back` does not help.
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
        """Have the agent, which diverged, go on from the newest checkpoint whose agent is good.

        Raises:
            DivergenceError: ``error``, if there is none, or the agent went back too often in a row.
        """
        run, step, most = self._run, self._run.step, self._run.settings.rollbacks
        restored, count = run.rollbacks.roll_back(error, step), run.rollbacks.in_a_row
        way = f"the agent goes on as it was at step {restored} (rollback {count} of {most} in a row)"
        run.logger.message(f"Diverged at step {step}, {way}: {error}")
        run.logger.log("train", step, rolled_back_to=restored, rollbacks_in_a_row=count)
