"""The input vector of the networks: selected observation keys, concatenated and normalised."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import Batch, ConfigError, EnvSpec, Observation, nearest

SMALLEST_SCALE = 0.02
"""Smallest deviation that is used as a divisor, in the unit of the element (m, rad, m/s, N, ...).

An element that hardly moves in the demonstrations may move in training; its noise must not drown the other elements.
"""

CLIP = 10.0
"""Magnitude to which normalised elements are clipped: a collision may cause a hundred times the usual force."""


class ObservationVector:
    """The concatenation of observation keys as one float32 vector of ``size`` elements.

    With normalisation, each element is shifted and scaled by its mean and standard deviation in a batch of
    demonstrations. These are fixed before training, since drifting statistics would shift the networks' input. Without
    demonstrations :meth:`fit` is not called and the elements remain unchanged.

    Args:
        spec: spec of the environment.
        keys: observation keys; None: all keys that are not images.
        normalise: whether :meth:`fit` has an effect.
        option: name of the agent's option that ``keys`` come from, for messages.

    Raises:
        ConfigError: if a key is unknown or an image, or no key remains.
    """

    def __init__(
        self, spec: EnvSpec, keys: tuple[str, ...] | None, normalise: bool, option: str = "observation_keys"
    ) -> None:
        valid = [key for key in spec.observation if not key.startswith("images/")]
        for key in keys or ():
            if key not in valid:
                raise ConfigError(f"agent.{option}: unknown vector observation {key!r}; {nearest(key, valid)}")
        # Sorted, so that the order of a spec read from a file makes no difference.
        self.keys = tuple(sorted(valid if keys is None else set(keys)))
        if not self.keys:
            raise ConfigError(f"task {spec.task!r} has no observation that is a vector; this agent needs one")
        self._specs = {key: spec.observation[key] for key in self.keys}
        self.size = sum(int(np.prod(array.shape)) for array in self._specs.values())
        self.normalise = normalise
        self.mean = np.zeros(self.size, np.float32)
        self.scale = np.ones(self.size, np.float32)
        self.fitted = np.zeros((), np.bool_)

    def one(self, observation: Observation) -> NDArray[np.float32]:
        """Return the vector (size,) of one observation."""
        parts = [np.ravel(observation[key]) for key in self.keys]
        return self._normalised(np.concatenate(parts, dtype=np.float32))

    def tensor(self, observation: Mapping[str, Tensor]) -> Tensor:
        """Return the same as :meth:`one` (size,), computed from tensors by tensor operations."""
        joined = torch.cat([observation[key].flatten().float() for key in self.keys])
        if not self.fitted:
            return joined
        mean, scale = (torch.from_numpy(array).to(joined.device) for array in (self.mean, self.scale))
        return ((joined - mean) / scale).clamp(-CLIP, CLIP)

    def draw(self, rng: np.random.Generator) -> Observation:
        """Return random values of the keys, with the mean and twice the deviation of the demonstrations."""
        values = self.mean + 2 * self.scale * rng.standard_normal(self.size)
        observation: Observation = {}
        for key, spec in self._specs.items():
            part, values = np.split(values, [int(np.prod(spec.shape))])
            observation[key] = part.clip(spec.low, spec.high).reshape(spec.shape).astype(spec.dtype)
        return observation

    def rows(self, batch: Batch, group: str = "observation") -> NDArray[np.float32]:
        """Return the vectors (n, size) of a batch; ``group`` is ``observation`` or ``next_observation``."""
        return self._normalised(self._joined(batch, group))

    def fit(self, batch: Batch) -> None:
        """Set mean and standard deviation from the observations of ``batch``; do nothing without normalisation."""
        if not self.normalise:
            return
        joined = self._joined(batch, "observation").astype(np.float64)
        self.mean[:] = joined.mean(axis=0)
        self.scale[:] = np.maximum(joined.std(axis=0), SMALLEST_SCALE)
        self.fitted[...] = True

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the normalisation, which share its memory."""
        arrays = {"mean": self.mean, "scale": self.scale, "fitted": self.fitted}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _joined(self, batch: Batch, group: str) -> NDArray[np.float32]:
        parts = [batch[f"{group}/{key}"] for key in self.keys]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1, dtype=np.float32)

    def _normalised(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if not self.fitted:
            return values
        values -= self.mean
        values /= self.scale
        return values.clip(-CLIP, CLIP, out=values)
