"""Sampler of batches that mix online data, demonstrations and prior data."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, CheckpointError, ConfigError, DataError, Reward, State, require

from .counterfactual import Counterfactual
from .ring import ReplayRing
from .slots import Indices

OWN_SUCCESS_FACTOR = 2
"""Number of demonstration steps that one step of the policy's own successful episodes replaces."""
NO_SLOTS = np.zeros(0, dtype=np.intp)


class MixedSampler:
    """Draws batches with a fixed fraction of demonstrations (RLPD, Ball et al. 2023: one half).

    While one of the two buffers is empty, the other provides all rows. In this way learning begins from demonstrations
    alone. Both buffers may grow between calls.

    In a batch, ``demonstration`` (n_rows,) is the weight with which a row counts as a demonstration to imitate. It is 0
    for failed demonstrations, which are only for the critics, and for rows drawn as online data. With
    ``imitate_online``, ``online_example`` (n_rows,) is 1 for online rows to imitate: interventions, and the policy's
    own actions from the last intervention until success (self-imitation, Oh et al. 2018). The more steps of own
    successes there are, the smaller the weight of demonstrations: D / (D + 2 S), with D steps of demonstrations and S
    of own successes. Without ``imitate_online`` the weight is 1, and ``online_example`` is 0.

    Interventions during training count both as online data and as demonstrations (HIL-SERL, Luo et al. 2024): the
    demonstration rows of a minibatch are drawn uniformly from the demonstrations and the interventions in ``online``.
    If there are no demonstrations, a minibatch has at most as many demonstration rows as ``online`` has interventions,
    so that a single step by a person does not fill half of it. This limit does not apply to a ratio of 1.

    A fixed share of every minibatch may come from prior data, such as the replay buffer of an earlier run, which is not
    imitated. While there is no online data, it takes the place of online data.

    Attributes:
        gamma: discount per step; a reward that schedules the discount changes it.

    Args:
        online: data collected in this training run.
        demonstrations: data from other sources, in a buffer with the same observation keys, or None.
        demonstration_ratio: fraction of demonstrations in every minibatch, 0 to 1.
        gamma: discount per step, 0 to 1.
        n_step: largest number of steps summed in a return, 1 or more.
        reward: combines the reward terms into one number; terms of learned modules are updated first.
        rng: PCG64 generator that only this sampler uses.
        interventions_are_demonstrations: see above; False: interventions are only online data.
        imitate_online: see above.
        action_chunk: number of steps whose actions form the action of a row, 1 to ``n_step``; see
            :meth:`.RingRows.gather`.
        keys: observation keys of batches; None: all. Leave out unused images: they would take most of the time.
        prior: prior data, in a buffer with the same observation keys, or None.
        prior_ratio: fraction of prior data in every minibatch; with ``demonstration_ratio`` at most 1.
        counterfactual: changes the state of the task's machine in a share of the online rows, or None.

    Raises:
        ConfigError: if a value is out of range or ``reward`` needs a term that a buffer does not hold.
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
        prior: ReplayRing | None = None,
        prior_ratio: float = 0.0,
        counterfactual: Counterfactual | None = None,
    ) -> None:
        require(0 <= demonstration_ratio <= 1, "demonstration_ratio", "in [0, 1]", demonstration_ratio)
        most = 1 - demonstration_ratio
        require(0 <= prior_ratio <= most, "prior_ratio", f"in [0, 1 - demonstration_ratio = {most:g}]", prior_ratio)
        require(0 <= gamma <= 1, "gamma", "in [0, 1]", gamma)
        require(n_step >= 1, "n_step", "1 or more", n_step)
        require(1 <= action_chunk <= n_step, "action_chunk", f"in [1, n_step = {n_step}]", action_chunk)
        if not isinstance(rng.bit_generator, np.random.PCG64):
            raise ConfigError(f"the sampler's generator must be a PCG64, got {type(rng.bit_generator).__name__}")
        for ring in (online, demonstrations, prior):
            if ring is not None:
                reward.combine(ring.terms, np.zeros((0, len(ring.terms)), np.float32), gamma)
        self._online = online
        self._demonstrations = demonstrations
        self._ratio = demonstration_ratio
        self._prior = prior
        self._prior_ratio = prior_ratio
        self._counterfactual = counterfactual
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
        """Draw ``n_rows`` rows: ``n_rows / block`` minibatches of ``block`` rows each.

        Rows ``u * block`` to ``(u + 1) * block`` are minibatch u: first ``round(demonstration_ratio * block)``
        demonstrations, then ``round(prior_ratio * block)`` rows of prior data, then online rows. All minibatches are
        gathered at once.

        The arrays belong to the sampler: the next call with the same number of rows overwrites them.

        Raises:
            ValueError: if ``n_rows`` is not a positive multiple of ``block``.
            DataError: if there are no transitions.
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
        demonstration_views = {name: view[:, :split] for name, view in views.items()}
        if split > 0 and len(interventions):
            self._fill_mixed(demonstration_views, demonstrations, interventions)
        elif split > 0:
            assert self._demonstrations is not None
            slots = self._fill(self._demonstrations, demonstration_views)
            demonstration_views["demonstration"][...] = self._weights(self._demonstrations, slots)
        online_from = split + self._prior_rows(block - split, block)
        if self._prior is not None and split < online_from:
            self._fill(self._prior, {name: view[:, split:online_from] for name, view in views.items()})
        if online_from < block:
            self._fill_online({name: view[:, online_from:] for name, view in views.items()})
        return dict(self._buffers)

    def sample_models(self, n_rows: int) -> Batch:
        """Draw ``n_rows`` demonstrations to imitate: from episodes that did not fail, or from all if every one failed.

        Raises:
            DataError: if there are no demonstrations.
        """
        ring = self._required_demonstrations()
        models = ring.rows.available.not_failed
        if len(models) in (0, len(ring)):
            return self._gather(ring, ring.rows.sample_indices(n_rows, self._rng))
        return self._gather(ring, models[self._rng.integers(0, len(models), n_rows)])

    def sample_demonstrations(self, n_rows: int) -> Batch:
        """Draw ``n_rows`` demonstrations, whatever their outcome.

        Raises:
            DataError: if there are no demonstrations.
        """
        ring = self._required_demonstrations()
        slots = ring.rows.sample_indices(n_rows, self._rng)
        return self._gather(ring, slots) | {
            "demonstration": (ring.rows.available.outcome[slots] != 0).astype(np.float32),
            "online_example": np.zeros(n_rows, np.float32),
        }

    def _demonstration_rows(self, block: int, demonstrations: int, interventions: int) -> int:
        """Return the number of rows of each minibatch that are drawn as demonstrations.

        Args:
            block: rows of a minibatch.
            demonstrations: number of stored demonstrations.
            interventions: number of stored interventions that count as demonstrations.
        """
        total = demonstrations + interventions
        prior = 0 if self._prior is None else len(self._prior)
        if not len(self._online) and not total and not prior:
            raise DataError("nothing to sample: the online replay is empty and there are no demonstrations")
        if not total:
            return 0
        if not len(self._online) and not prior:
            return block
        rows = round(self._ratio * block)
        # With a ratio of 1, an agent imitates every row, so the policy's own actions must not be among the rows.
        return rows if demonstrations or self._ratio == 1 else min(rows, interventions)

    def _prior_rows(self, remaining: int, block: int) -> int:
        """Return how many of the ``remaining`` rows of a minibatch of ``block`` rows are drawn from the prior data."""
        if self._prior is None or not len(self._prior):
            return 0
        return min(round(self._prior_ratio * block), remaining) if len(self._online) else remaining

    def _fill(self, ring: ReplayRing, out: Batch) -> Indices:
        """Fill ``out`` with rows drawn from ``ring``; return their slots."""
        minibatches, rows = out["reward"].shape
        slots = ring.rows.sample_indices(minibatches * rows, self._rng).reshape(minibatches, rows)
        self._gather(ring, slots, out)
        return slots

    def _fill_online(self, out: Batch) -> None:
        """Fill ``out`` with rows of the running training, the last of each minibatch counterfactual ones."""
        slots = self._fill(self._online, out)
        if self._imitate_online:
            out["online_example"][...] = self._online.rows.available.own_success[slots]
        if self._counterfactual is None:
            return
        unchanged = slots.shape[1] - round(self._counterfactual.share * slots.shape[1])
        changed = {name: view[:, unchanged:] for name, view in out.items()}
        self._counterfactual.apply(
            self._online,
            slots[:, unchanged:],
            changed,
            gamma=self.gamma,
            n_step=self._n_step,
            reward=self._reward,
            rng=self._rng,
        )
        changed["online_example"][...] = 0  # the action was chosen for another state of the machine

    def _required_demonstrations(self) -> ReplayRing:
        if self._demonstrations is None or not len(self._demonstrations):
            raise DataError("nothing to sample: there are no demonstrations")
        return self._demonstrations

    def _fill_mixed(self, out: Batch, demonstrations: int, interventions: Indices) -> None:
        """Fill ``out`` with rows drawn uniformly from all demonstrations and ``interventions``.

        Args:
            out: arrays to write into.
            demonstrations: number of stored demonstrations.
            interventions: slots of the online buffer.
        """
        drawn = self._rng.integers(0, demonstrations + len(interventions), out["reward"].shape)
        is_intervention = drawn >= demonstrations
        parts = [(self._online, is_intervention, interventions[drawn[is_intervention] - demonstrations])]
        if self._demonstrations is not None and demonstrations:
            is_demonstration = ~is_intervention
            parts.append(
                (
                    self._demonstrations,
                    is_demonstration,
                    self._demonstrations.rows.sample_indices(is_demonstration.sum(), self._rng),
                )
            )
        for ring, rows, slots in parts:
            for name, values in self._gather(ring, slots).items():
                out[name][rows] = values
            out["online_example"][rows] = self._imitate_online and ring is self._online
            out["demonstration"][rows] = 1.0 if ring is self._online else self._weights(ring, slots)

    def _weights(self, demonstrations: ReplayRing, slots: Indices) -> NDArray[np.float32]:
        """Return the imitation weights of the demonstrations in ``slots`` (any shape)."""
        weight = 1.0
        if self._imitate_online:
            own_steps = np.count_nonzero(self._online.rows.available.own_success)
            weight = len(demonstrations) / (len(demonstrations) + OWN_SUCCESS_FACTOR * own_steps)
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
        """Return the state of the generator; the buffers have separate states."""
        return {"generator": _pack(self._rng)}

    def load(self, state: State) -> None:
        """Restore ``state``.

        Raises:
            CheckpointError: if it is not the state of a sampler.
        """
        packed = state.get("generator")
        if packed is None or packed.shape != (6,) or packed.dtype != np.uint64:
            raise CheckpointError(f"sampler: expected an array 'generator' of 6 uint64, found {sorted(state)}")
        if not int(packed[3]) & 1:  # with an even increment, a generator may return the same number forever
            raise CheckpointError("sampler: 'generator' is no state of a random generator: its increment is even")
        _unpack(self._rng, packed)


def _pack(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return the state of a PCG64 generator as 6 numbers: two of 128 bits (high, low), then the cached 32 bits."""
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
