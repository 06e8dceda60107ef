"""Batches mixed from online data and demonstrations."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, CheckpointError, ConfigError, DataError, Reward, State, require

from .ring import ReplayRing


class MixedSampler:
    """Draws batches of which a fixed share are demonstrations (RLPD, Ball et al. 2023: one half).

    While one of the two rings is empty the other gives all rows; this is how learning begins from demonstrations
    alone. Both rings may grow between calls.

    Attributes:
        gamma: discount per step; a reward that schedules the discount changes it.

    Args:
        online: data of the running training.
        demonstrations: data from elsewhere, in a ring of the same observation keys, or None.
        demonstration_ratio: share of demonstrations in every minibatch, 0 to 1.
        gamma: discount per step, 0 to 1.
        n_step: largest number of steps summed in a return, 1 or more.
        reward: makes one number of the reward terms; terms of learned modules are brought up to date first.
        rng: PCG64 generator of this sampler alone.

    Raises:
        ConfigError: if a value is out of range or ``reward`` needs a term that a ring does not hold.
    """

    def __init__(
        self,
        online: ReplayRing,
        demonstrations: ReplayRing | None,
        demonstration_ratio: float,
        gamma: float,
        n_step: int,
        reward: Reward,
        rng: np.random.Generator,
    ) -> None:
        require(0 <= demonstration_ratio <= 1, "demonstration_ratio", "in [0, 1]", demonstration_ratio)
        require(0 <= gamma <= 1, "gamma", "in [0, 1]", gamma)
        require(n_step >= 1, "n_step", "1 or more", n_step)
        if not isinstance(rng.bit_generator, np.random.PCG64):
            raise ConfigError(f"the sampler's generator must be a PCG64, got {type(rng.bit_generator).__name__}")
        for ring in (online, demonstrations):
            if ring is not None:
                reward.combine(ring.terms, np.zeros((0, len(ring.terms)), np.float32), gamma)
        self._online = online
        self._demonstrations = demonstrations
        self._ratio = demonstration_ratio
        self.gamma = gamma
        self._n_step = n_step
        self._reward = reward
        self._rng = rng
        self._buffers: Batch = {}
        self._buffer_rows = 0

    def sample(self, n_rows: int, block: int) -> Batch:
        """Draw ``n_rows`` rows: ``n_rows / block`` minibatches, one after the other.

        Rows ``u * block`` to ``(u + 1) * block`` are minibatch u: ``round(demonstration_ratio * block)``
        demonstrations first, online rows after them. All is gathered at once, whatever the number of minibatches.

        The arrays belong to the sampler: the next call with as many rows overwrites them.

        Raises:
            ValueError: if ``n_rows`` is no multiple of ``block``.
            DataError: if there is no transition at all.
        """
        if block < 1 or n_rows < 1 or n_rows % block:
            raise ValueError(f"rows must be a positive multiple of the minibatch size {block}, got {n_rows}")
        if n_rows != self._buffer_rows:
            self._buffers = self._online.empty_batch((n_rows,)) | {"demonstration": np.empty(n_rows, np.float32)}
            self._buffer_rows = n_rows
        split = self._demonstration_rows(block)
        minibatches = n_rows // block
        views = {name: array.reshape(minibatches, block, *array.shape[1:]) for name, array in self._buffers.items()}
        views["demonstration"][:, :split] = 1
        views["demonstration"][:, split:] = 0
        if split > 0:
            assert self._demonstrations is not None
            self._fill(self._demonstrations, {name: view[:, :split] for name, view in views.items()})
        if split < block:
            self._fill(self._online, {name: view[:, split:] for name, view in views.items()})
        return dict(self._buffers)

    def _demonstration_rows(self, block: int) -> int:
        """Return how many rows of each minibatch are demonstrations."""
        demonstrations = 0 if self._demonstrations is None else len(self._demonstrations)
        if not len(self._online) and not demonstrations:
            raise DataError("nothing to sample: the online replay is empty and there are no demonstrations")
        if not demonstrations:
            return 0
        return round(self._ratio * block) if len(self._online) else block

    def _fill(self, ring: ReplayRing, out: Batch) -> None:
        minibatches, rows = out["reward"].shape
        indices = ring.sample_indices(minibatches * rows, self._rng).reshape(minibatches, rows)
        scorer = self._reward.scorer
        if scorer is not None and scorer.learns:
            ring.rescore(indices, scorer, self._n_step)
        ring.gather(indices, gamma=self.gamma, n_step=self._n_step, reward=self._reward, out=out, rng=self._rng)

    def state(self) -> State:
        """Return the state of the generator; the rings have their own."""
        return {"generator": _pack(self._rng)}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is not the state of a sampler.
        """
        packed = state.get("generator")
        if packed is None or packed.shape != (6,) or packed.dtype != np.uint64:
            raise CheckpointError(f"sampler: expected an array 'generator' of 6 uint64, found {sorted(state)}")
        _unpack(self._rng, packed)


def _pack(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of a PCG64 generator as 6 numbers: two of 128 bits (high, low), then the spare 32 bits."""
    state = rng.bit_generator.state
    words = [word for key in ("state", "inc") for word in divmod(state["state"][key], 1 << 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def _unpack(rng: np.random.Generator, packed: NDArray[np.uint64]) -> None:
    state_high, state_low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in packed)
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
