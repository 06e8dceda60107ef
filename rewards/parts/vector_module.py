"""Base classes of reward modules whose input is one vector: normalisation, learning and state."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, State, derive_seed

from .arrays import take_over, taken, with_prefix, without_prefix
from .module import Floats, Module
from .networks import TrainedNetwork
from .vector_config import NetworkConfig, VectorConfig
from .vector_input import VectorInput


class VectorModule(Module):
    """Base class of modules whose input is one vector, and that save arrays in checkpoints.

    Subclasses have the same arguments, and those that need no seed leave it out.

    Args:
        config: configuration of the module.
        name: name of its reward term.
        spec: spec of the environment.
        seed: seed of the run.
        trains: whether the module can train a convolutional network.

    Raises:
        ConfigError: if the environment lacks an observation key.
    """

    def __init__(self, config: VectorConfig, name: str, spec: EnvSpec, seed: int = 0, *, trains: bool = False) -> None:
        super().__init__()
        self.config = config
        self._name = name
        self._seed = derive_seed(seed, "reward", name)
        self._input = VectorInput(config.keys, config.images, spec, f"reward.modules.{name}", trains=trains)
        self._arrays: dict[str, NDArray[Any]] = {}  # saved arrays of fixed shape
        self._rows: dict[str, NDArray[Any]] = {}  # saved arrays with any number of rows
        # Modules that learn add these arrays, or replacements for them, to ``_arrays``.
        self._version = np.zeros(1, dtype=np.int64)
        self._waited = np.zeros(1, dtype=np.int64)  # calls of _is_due since the last update

    def _is_due(self, interval: int, ready: bool) -> bool:
        """Count a call; return whether an update is due: after ``interval`` calls, on the first that is ``ready``."""
        self._waited += 1
        due = bool(self._waited[0] >= interval) and ready
        if due:
            self._waited[0] = 0
        return due

    def state(self) -> State:
        """Return all arrays to save."""
        self._version[0] = self.version
        return {**self._arrays, **self._rows, **self._input.state()}

    def load(self, state: State) -> None:
        """Restore ``state``."""
        self._input.check(state, self._name)
        take_over(self._arrays, state, self._name)
        self._rows = {key: taken(state, key, self._name, like=like) for key, like in self._rows.items()}
        self.version = int(self._version[0])


class NetworkModule(VectorModule):
    """Base class of modules that train networks on normalised vectors, and save them with their optimisers.

    The arguments are those of :class:`VectorModule`.
    """

    config: NetworkConfig

    def __init__(self, config: NetworkConfig, name: str, spec: EnvSpec, seed: int, *, trains: bool = False) -> None:
        super().__init__(config, name, spec, seed, trains=trains)
        self._arrays |= {
            "shift": np.zeros(self._input.size, dtype=np.float32),
            "scale": np.ones(self._input.size, dtype=np.float32),
        }
        self._networks: dict[str, TrainedNetwork] = {}

    def _make_network(self, *member: int, inputs: int | None = None, outputs: int = 1) -> TrainedNetwork:
        """Return a new network, which becomes part of the state.

        Args:
            member: number of the network if there are several.
            inputs: number of inputs; None for the size of :attr:`_input`.
            outputs: number of outputs.
        """
        network = TrainedNetwork(
            self._input.size if inputs is None else inputs,
            self.config.hidden,
            outputs,
            learning_rate=self.config.learning_rate,
            seed=derive_seed(self._seed, "network", *member),
            name=self._name,
            pictures=self._input.pictures,
        )
        self._networks["/".join(("network", *map(str, member)))] = network
        return network

    def _normalise(self, vectors: Floats) -> None:
        """Set shift and scale from vectors (n, F)."""
        self._arrays["shift"][...], self._arrays["scale"][...] = self._input.scaling(vectors)

    def _scaled(self, vectors: Floats) -> Floats:
        """Return vectors (..., F) shifted and scaled."""
        scaled: Floats = (vectors - self._arrays["shift"]) / self._arrays["scale"]
        return scaled

    def state(self) -> State:
        """Return all arrays to save, including those of the networks."""
        networks: State = {}
        for part, network in self._networks.items():
            networks |= with_prefix(f"{part}/", network.state())
        return {**super().state(), **networks}

    def load(self, state: State) -> None:
        """Restore ``state``."""
        super().load(state)
        for part, network in self._networks.items():
            network.load(without_prefix(f"{part}/", state))
