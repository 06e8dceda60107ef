"""The agent: behaviour cloning of a deterministic policy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, EnvSpec, Metrics, Observation, State

from ..sac.cloning import BehaviourCloning
from ..sac.policy import TanhGaussianPolicy
from ..sac.slots import load_slots, save_slots
from .config import BCConfig


class BC:
    """Regression of actions on the demonstrations; the actor of :class:`~robo_rl.agents.sac.SAC`.

    Attributes:
        config: as given.
        update_rows: rows of the Batch for ``update``, all of them demonstrations.
        backend: which implementation computes updates.
        features: None: no images are looked at.

    Args:
        config: of the agent.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if the configuration does not fit the spec.
    """

    def __init__(self, config: BCConfig, spec: EnvSpec, seed: int) -> None:
        self.config = config
        self.update_rows = config.batch_size
        self.backend = "torch"
        self.features = None
        self._policy = TanhGaussianPolicy(config, spec, seed)
        self._cloning = BehaviourCloning(self._policy, config.learning_rate)

    def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
        """Return the action (A,) in [-1, 1]; this agent does not explore, whatever ``explore`` says."""
        return self._policy.act(observation, explore=False)

    def fit_normaliser(self, batch: Batch) -> None:
        """Fix the normalisation of observations from a batch of demonstrations, before anything is learned.

        Raises:
            RuntimeError: if the agent has learned already.
        """
        if self._cloning.steps:
            raise RuntimeError("the normalisation cannot change once the agent has learned")
        self._policy.observations.fit(batch)

    def pretrain(self, batch: Batch) -> Metrics:
        """The same as :meth:`update`."""
        return self.update(batch)

    def update(self, batch: Batch) -> Metrics:
        """Take one step on rows of demonstrations; return ``bc_loss``, the mean squared error before it.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        return self._cloning.step(batch)

    def _slots(self) -> dict[str, Tensor]:
        return self._policy.slots() | self._cloning.slots()

    def state(self) -> State:
        """Return parameters, optimiser and counters."""
        return save_slots(self._slots())

    def load(self, state: State) -> None:
        """Go on from ``state`` bit for bit.

        Raises:
            CheckpointError: naming the first name or shape that is not this agent's.
        """
        load_slots(self._slots(), state, "the agent")

    def policy_state(self) -> State:
        """Return what ``act`` alone needs."""
        return self._policy.state()

    def load_policy(self, state: State) -> None:
        """Take over a ``policy_state``.

        Raises:
            CheckpointError: naming the first name or shape that is not this policy's.
        """
        self._policy.load(state)


def make_bc(*, spec: EnvSpec, seed: int, **fields: Any) -> BC:
    """Make the agent from the fields of :class:`BCConfig`."""
    return BC(BCConfig(**fields), spec, seed)
