"""Rollbacks of a diverged agent to the newest good checkpoint, limited in number."""

from collections.abc import Mapping
from typing import Any

from ..app import RunConfig
from ..core import CheckpointError, DivergenceError, whole_number
from ..learner import Checkpoint, CheckpointFolder, Learner, load_checkpoint, not_finite


class Rollbacks:
    """Rolls back the agent of a run when it diverges, and counts consecutive rollbacks.

    The count restarts after ``run.checkpoint_interval`` environment steps without a rollback.
    """

    def __init__(self, learner: Learner, checkpoints: CheckpointFolder, settings: RunConfig) -> None:
        self._learner, self._checkpoints, self._settings = learner, checkpoints, settings
        self._step = self.in_a_row = 0

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the count that :meth:`state` returned; an empty state means no rollbacks."""
        self._step, self.in_a_row = whole_number(state.get("step", 0)), whole_number(state.get("in_a_row", 0))

    def state(self) -> dict[str, Any]:
        """Return the count as JSON values."""
        return {"in_a_row": self.in_a_row, "step": self._step}

    def roll_back(self, error: DivergenceError, step: int) -> int:
        """Restore the agent from the newest good checkpoint; return the environment step of that checkpoint.

        Args:
            error: the divergence.
            step: number of environment steps so far.

        Raises:
            DivergenceError: ``error``, if there were too many consecutive rollbacks, or no checkpoint is good.
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
                continue  # the checkpoint is damaged
            if not_finite(checkpoint.parts["agent"]) is None:
                return checkpoint
        return None
