"""Scripts and trained policies as players of live episodes, see :class:`.Player`."""

import numpy as np
from numpy.typing import NDArray

from ..core import EnvBackend, Observation, Policy, derive_seed, generator
from ..recording.scripts import SCRIPTS


class ScriptPlayer:
    """Script whose episodes begin like those of demonstrations."""

    def __init__(self, source: str, backend: EnvBackend, seed: int) -> None:
        self._spec, self._expert = backend.spec, backend.expert(seed)
        self._make, self._rng = SCRIPTS[source], generator(derive_seed(seed, "play", source))

    def reset(self) -> None:
        self._chooser = self._make(self._spec, self._expert, 0.0, self._rng)

    def act(self, observation: Observation) -> NDArray[np.float32]:
        return self._chooser(observation).action


class PolicyPlayer:
    """Policy without exploration."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def reset(self) -> None:
        self._policy.forget_plan(explore=False)

    def act(self, observation: Observation) -> NDArray[np.float32]:
        return self._policy.act(observation, explore=False)
