"""One learner step: draw the rows that the agent wants, update, and guard against divergence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from robo_rl.core import Agent, Batch, DivergenceError, Metrics, State, write_durably


class Learner:
    """Feeds an agent from a sampler.

    Args:
        agent: what learns.
        sample: returns a Batch of the number of rows it is given.
        dump_folder: where the batch of a diverged update is written.
    """

    def __init__(self, agent: Agent, sample: Callable[[int], Batch], dump_folder: Path) -> None:
        self.agent = agent
        self.updates = 0
        self._sample = sample
        self._dump_folder = dump_folder

    def step(self) -> Metrics:
        """Do the updates that one environment step pays for.

        Raises:
            DivergenceError: if the update diverged; the batch is in ``divergence_batch.safetensors`` then, and the
                agent is of no use before :meth:`roll_back`.
        """
        batch = self._sample(self.agent.update_rows)
        try:
            metrics = self.agent.update(batch)
        except DivergenceError as error:
            raise DivergenceError(f"{error} {self._dump(batch)}") from error
        self.updates += 1
        return metrics

    def roll_back(self, state: State) -> None:
        """Have the agent go on from an earlier ``state``, which counts as a step: its policy is another one.

        Random streams do not go back, so that what comes is not what went wrong once more.
        """
        streams = {name: array for name, array in self.agent.state().items() if name.startswith("generator/")}
        self.agent.load({**state, **streams})
        self.agent.forget_plan(explore=True)
        self.updates += 1

    def _dump(self, batch: Batch) -> str:
        """Write ``batch`` for people to look at; return where it is."""
        file = self._dump_folder / "divergence_batch.safetensors"
        try:
            self._dump_folder.mkdir(parents=True, exist_ok=True)
            write_durably(file, save({key: np.asarray(value, order="C") for key, value in batch.items()}))
        except OSError as error:
            return f"The batch could not be written to {file} ({error.strerror})."
        return f"The batch is in {file}."
