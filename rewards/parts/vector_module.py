"""Bases of the reward modules that look at an observation as one vector: options, normalisation, learning, state."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec, Options, State, as_config, derive_seed, option, require

from ..vision.images import ImagesConfig
from .arrays import take_over, taken, with_prefix, without_prefix
from .module import Floats, Module
from .networks import TrainedNetwork
from .vector_input import VectorInput


@dataclass(frozen=True)
class VectorConfig(Options):
    """Options of modules that look at an observation as one vector.

    Attributes:
        keys: observation keys to look at; null: all that are not images.
        images: how those among them that are images are seen.
    """

    keys: tuple[str, ...] | None = None
    images: ImagesConfig = field(default_factory=ImagesConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "images", as_config(self.images, ImagesConfig))


@dataclass(frozen=True)
class NetworkConfig(VectorConfig):
    """Options of modules that train a network on such vectors.

    Attributes (besides those of :class:`VectorConfig`):
        hidden: widths of the hidden layers.
        learning_rate: of Adam.
    """

    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = option(1e-3, above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "hidden", tuple(self.hidden))
        require(all(width >= 1 for width in self.hidden), "hidden", "widths of 1 or more", list(self.hidden))


class VectorModule(Module):
    """Base of modules that look at an observation as one vector, and of what they keep in checkpoints.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.
        trains: the module can train a convolutional network.

    Raises:
        ConfigError: if an observation key is not there.
    """

    def __init__(self, config: VectorConfig, name: str, spec: EnvSpec, seed: int = 0, *, trains: bool = False) -> None:
        super().__init__()
        self.config = config
        self._name = name
        self._seed = derive_seed(seed, "reward", name)
        self._input = VectorInput(config.keys, config.images, spec, f"reward.modules.{name}", trains=trains)
        self._arrays: dict[str, NDArray[Any]] = {}  # kept, of these shapes
        self._rows: dict[str, NDArray[Any]] = {}  # kept, with any number of rows
        # Modules that learn put these, or others in their places, into _arrays.
        self._version = np.zeros(1, dtype=np.int64)
        self._waited = np.zeros(1, dtype=np.int64)  # calls of _is_due since the last update

    def _is_due(self, interval: int, ready: bool) -> bool:
        """Count a call; return whether it is the first in ``interval`` calls that is ``ready`` for an update."""
        self._waited += 1
        due = bool(self._waited[0] >= interval) and ready
        if due:
            self._waited[0] = 0
        return due

    def state(self) -> State:
        """Return all that is kept."""
        self._version[0] = self.version
        return {**self._arrays, **self._rows, **self._input.state()}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of another module.
        """
        self._input.check(state, self._name)
        take_over(self._arrays, state, self._name)
        self._rows = {key: taken(state, key, self._name, like=like) for key, like in self._rows.items()}
        self.version = int(self._version[0])


class NetworkModule(VectorModule):
    """Base of modules that train networks on normalised vectors. Keeps these, with their optimisers.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.
        trains: the module can train a convolutional network.

    Raises:
        ConfigError: if an observation key is not there.
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
        """Return a network that is kept.

        Args:
            member: number of the network, where there are several.
            inputs: elements of its inputs; None: those of :attr:`_input`.
            outputs: elements of its outputs.
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
        """Let vectors be shifted and scaled from now on as suits these (n, F)."""
        self._arrays["shift"][...], self._arrays["scale"][...] = self._input.scaling(vectors)

    def _scaled(self, vectors: Floats) -> Floats:
        """Return vectors (..., F) shifted and scaled."""
        scaled: Floats = (vectors - self._arrays["shift"]) / self._arrays["scale"]
        return scaled

    def state(self) -> State:
        """Return all that is kept."""
        networks: State = {}
        for part, network in self._networks.items():
            networks |= with_prefix(f"{part}/", network.state())
        return {**super().state(), **networks}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of another module.
        """
        super().load(state)
        for part, network in self._networks.items():
            network.load(without_prefix(f"{part}/", state))
