"""What a run does where its agent diverges: it goes back to the newest checkpoint whose agent is good, a few times."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..app import RunConfig
from ..core import CheckpointError, DivergenceError, State
from ..learner import Checkpoint, CheckpointFolder, Learner, load_checkpoint


class Rollbacks:
    """Takes the agent of a run back where it diverges, and counts how often that happened in a row.

    Those before count no more after ``run.checkpoint_interval`` environment steps without one.

    Args:
        learner: of the run.
        checkpoints: of the run.
        settings: of the run.
    """

    def __init__(self, learner: Learner, checkpoints: CheckpointFolder, settings: RunConfig) -> None:
        self._learner, self._checkpoints, self._settings = learner, checkpoints, settings
        self._step = self.in_a_row = 0

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned; empty: from none."""
        self._step, self.in_a_row = int(state.get("step", 0)), int(state.get("in_a_row", 0))

    def state(self) -> dict[str, Any]:
        """Return the count as JSON values."""
        return {"in_a_row": self.in_a_row, "step": self._step}

    def roll_back(self, error: DivergenceError, step: int) -> int:
        """Have the agent go on from the newest good checkpoint; return of which environment step that is.

        Args:
            error: how it diverged.
            step: environment steps so far.

        Raises:
            DivergenceError: ``error``, if that was done too often already, or no checkpoint is good.
        """
        if step - self._step >= self._settings.checkpoint_interval:
            self.in_a_row = 0
        checkpoint = self._newest_good() if self.in_a_row < self._settings.rollbacks else None
        if checkpoint is None:
            raise error
        self.in_a_row += 1
        self._step = step
        self._learner.roll_back(checkpoint.parts["agent"])
        return checkpoint.step

    def _newest_good(self) -> Checkpoint | None:
        for folder in reversed(self._checkpoints.folders()):
            try:
                checkpoint = load_checkpoint(folder, only=("agent",))
            except CheckpointError:
                continue  # it is damaged
            if _is_finite(checkpoint.parts["agent"]):
                return checkpoint
        return None


def _is_finite(state: State) -> bool:
    return all(np.isfinite(array).all() for array in state.values() if np.issubdtype(array.dtype, np.floating))
