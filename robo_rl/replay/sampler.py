"""Batches mixed from online data and demonstrations."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, CheckpointError, ConfigError, DataError, Reward, State, require

from .ring import ReplayRing
from .slots import Indices

OWN_SUCCESS_FACTOR = 2
"""Steps of demonstrations that a step of an own successful episode takes the place of."""
NO_SLOTS = np.zeros(0, dtype=np.intp)


class MixedSampler:
    """Draws batches of which a fixed share are demonstrations (RLPD, Ball et al. 2023: one half).

    While one of the two rings is empty the other gives all rows; this is how learning begins from demonstrations
    alone. Both rings may grow between calls.

    ``demonstration`` (n_rows,) of a batch is above 0 where the action is one to imitate, 0 else: that of demonstrations
    which failed, which are there for the critics, and of the online ring. With ``imitate_online``, ``online_example``
    (n_rows,) is 1 for what is to be imitated of the online ring: interventions, and what the policy did without one
    until success (self-imitation, Oh et al. 2018). The more of the latter there is, the less demonstrations count:
    D / (D + 2 S), with D steps of demonstrations and S of own successes. Else ``demonstration`` is 1, and
    ``online_example`` 0.

    What a person did in the training counts as online data and as demonstrations (HIL-SERL, Luo et al. 2024): rows of
    the demonstrations' share are drawn uniformly from the demonstrations and the interventions that ``online`` holds.
    Without demonstrations a minibatch has no more rows of interventions than there are, unless these are all that is
    wanted: a single step of a person is not to be half of it.

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
        interventions_are_demonstrations: see above; False: they are online data alone.
        imitate_online: see above.
        action_chunk: steps whose actions make a row's, 1 to ``n_step``; see :meth:`.RingRows.gather`.
        keys: observation keys that batches have; None: all. Images that nobody learns from take most of the time.

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
        interventions_are_demonstrations: bool = True,
        imitate_online: bool = False,
        action_chunk: int = 1,
        keys: Collection[str] | None = None,
    ) -> None:
        require(0 <= demonstration_ratio <= 1, "demonstration_ratio", "in [0, 1]", demonstration_ratio)
        require(0 <= gamma <= 1, "gamma", "in [0, 1]", gamma)
        require(n_step >= 1, "n_step", "1 or more", n_step)
        require(1 <= action_chunk <= n_step, "action_chunk", f"in [1, n_step = {n_step}]", action_chunk)
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
        self._action_chunk = action_chunk
        self._keys = keys
        self._reward = reward
        self._rng = rng
        self._interventions_are_demonstrations = interventions_are_demonstrations
        self._imitate_online = imitate_online
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
            self._buffers = self._online.rows.empty_batch((n_rows,), self._action_chunk, self._keys)
            for name in ("demonstration", "online_example"):
                self._buffers[name] = np.empty(n_rows, np.float32)
            self._buffer_rows = n_rows
        demonstrations = 0 if self._demonstrations is None else len(self._demonstrations)
        interventions = (
            self._online.rows.available.interventions if self._interventions_are_demonstrations else NO_SLOTS
        )
        split = self._demonstration_rows(block, demonstrations, len(interventions))
        minibatches = n_rows // block
        views = {name: array.reshape(minibatches, block, *array.shape[1:]) for name, array in self._buffers.items()}
        views["demonstration"][...] = views["online_example"][...] = 0
        shown = {name: view[:, :split] for name, view in views.items()}
        if split > 0 and len(interventions):
            self._fill_mixed(shown, demonstrations, interventions)
        elif split > 0:
            assert self._demonstrations is not None
            slots = self._fill(self._demonstrations, shown)
            shown["demonstration"][...] = self._weights(self._demonstrations, slots)
        if split < block:
            own = {name: view[:, split:] for name, view in views.items()}
            slots = self._fill(self._online, own)
            if self._imitate_online:
                own["online_example"][...] = self._online.rows.available.own_success[slots]
        return dict(self._buffers)

    def sample_models(self, n_rows: int) -> Batch:
        """Draw ``n_rows`` demonstrations to imitate: those of episodes that did not fail, or of all where each did.

        Raises:
            DataError: if there are no demonstrations.
        """
        ring = self._required_demonstrations()
        models = ring.rows.available.not_failed
        if len(models) in (0, len(ring)):
            return self._gather(ring, ring.rows.sample_indices(n_rows, self._rng))
        return self._gather(ring, models[self._rng.integers(0, len(models), n_rows)])

    def sample_with_returns(self, n_rows: int) -> Batch:
        """Draw ``n_rows`` demonstrations, with ``return_to_go`` of :meth:`.RingRows.returns_to_go`.

        Meant for before the first step: rewards of learned modules beyond the rows are taken as they were last scored.

        Raises:
            DataError: if there are no demonstrations.
        """
        ring = self._required_demonstrations()
        slots = ring.rows.sample_indices(n_rows, self._rng)
        return self._gather(ring, slots) | {
            "demonstration": (ring.rows.available.outcome[slots] != 0).astype(np.float32),
            "online_example": np.zeros(n_rows, np.float32),
            "return_to_go": ring.rows.returns_to_go(slots, gamma=self.gamma, reward=self._reward),
        }

    def _demonstration_rows(self, block: int, demonstrations: int, interventions: int) -> int:
        """Return how many rows of each minibatch are demonstrations or interventions, of which there are so many."""
        shown = demonstrations + interventions
        if not len(self._online) and not shown:
            raise DataError("nothing to sample: the online replay is empty and there are no demonstrations")
        if not shown:
            return 0
        if not len(self._online):
            return block
        rows = round(self._ratio * block)
        # Who wants nothing but demonstrations imitates them: it is not to imitate itself.
        return rows if demonstrations or self._ratio == 1 else min(rows, interventions)

    def _fill(self, ring: ReplayRing, out: Batch) -> Indices:
        """Fill rows from ``ring``; return their slots."""
        minibatches, rows = out["reward"].shape
        slots = ring.rows.sample_indices(minibatches * rows, self._rng).reshape(minibatches, rows)
        self._gather(ring, slots, out)
        return slots

    def _required_demonstrations(self) -> ReplayRing:
        if self._demonstrations is None or not len(self._demonstrations):
            raise DataError("nothing to sample: there are no demonstrations")
        return self._demonstrations

    def _fill_mixed(self, out: Batch, demonstrations: int, interventions: Indices) -> None:
        """Fill rows from that many demonstrations and from ``interventions``, slots of the online ring."""
        drawn = self._rng.integers(0, demonstrations + len(interventions), out["reward"].shape)
        is_intervention = drawn >= demonstrations
        parts = [(self._online, is_intervention, interventions[drawn[is_intervention] - demonstrations])]
        if self._demonstrations is not None and demonstrations:
            others = ~is_intervention
            parts.append(
                (self._demonstrations, others, self._demonstrations.rows.sample_indices(others.sum(), self._rng))
            )
        for ring, rows, slots in parts:
            for name, values in self._gather(ring, slots).items():
                out[name][rows] = values
            out["online_example"][rows] = self._imitate_online and ring is self._online
            out["demonstration"][rows] = 1.0 if ring is self._online else self._weights(ring, slots)

    def _weights(self, demonstrations: ReplayRing, slots: Indices) -> NDArray[np.float32]:
        """Return how much the actions of demonstrations, in ``slots`` (...,), count as such to imitate."""
        weight = 1.0
        if self._imitate_online:
            own = np.count_nonzero(self._online.rows.available.own_success)
            weight = len(demonstrations) / (len(demonstrations) + OWN_SUCCESS_FACTOR * own)
        weights: NDArray[np.float32] = np.float32(weight) * (demonstrations.rows.available.outcome[slots] != 0)
        return weights

    def _gather(self, ring: ReplayRing, slots: Indices, out: Batch | None = None) -> Batch:
        scorer = self._reward.scorer
        if scorer is not None and scorer.learns:
            ring.computed.rescore(slots, scorer, self._n_step)
        return ring.rows.gather(
            slots,
            gamma=self.gamma,
            n_step=self._n_step,
            reward=self._reward,
            action_chunk=self._action_chunk,
            keys=self._keys,
            out=out,
            rng=self._rng,
        )

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
