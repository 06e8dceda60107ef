"""Learner that samples batches, updates the agent and handles divergence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from robo_rl.core import Agent, Batch, DivergenceError, Metrics, State, write_durably


class Learner:
    """Updates an agent with batches from a sampler.

    Args:
        agent: the agent to update.
        sample: draws a batch of the requested number of rows.
        dump_folder: folder that the batch of a diverged update is written to.

    Attributes:
        agent: the argument.
        updates: number of learner steps so far, rollbacks included.
    """

    def __init__(self, agent: Agent, sample: Callable[[int], Batch], dump_folder: Path) -> None:
        self.agent = agent
        self.updates = 0
        self._sample = sample
        self._dump_folder = dump_folder

    def step(self) -> Metrics:
        """Perform one learner step; return the metrics of the update.

        Raises:
            DivergenceError: if the update diverged. The batch is then written to ``divergence_batch.safetensors``, and
                the agent must not be used before :meth:`roll_back`.
        """
        batch = self._sample(self.agent.update_rows)
        try:
            metrics = self.agent.update(batch)
        except DivergenceError as error:
            raise DivergenceError(f"{error} {self._dump(batch)}") from error
        self.updates += 1
        return metrics

    def roll_back(self, state: State) -> None:
        """Restore an earlier ``state`` of the agent. This counts as a learner step, because the policy changes.

        The random streams are not restored, so that the updates that diverged are not repeated.
        """
        streams = {name: array for name, array in self.agent.state().items() if name.startswith("generator/")}
        self.agent.load({**state, **streams})
        self.agent.forget_plan(explore=True)
        self.updates += 1

    def _dump(self, batch: Batch) -> str:
        """Write ``batch`` to a file for inspection; return a sentence with its path, or with the error."""
        file = self._dump_folder / "divergence_batch.safetensors"
        try:
            self._dump_folder.mkdir(parents=True, exist_ok=True)
            write_durably(file, save({key: np.asarray(value, order="C") for key, value in batch.items()}))
        except OSError as error:
            return f"The batch could not be written to {file} ({error.strerror})."
        return f"The batch is in {file}."
