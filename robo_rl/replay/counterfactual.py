"""Counterfactual rows: transitions as if the machine of the task had been in another state."""

import numpy as np

from robo_rl.core import MACHINE, Batch, MachineSteps, Reward

from .ring import ReplayRing
from .slots import Indices


class Counterfactual:
    """Changes the state of the machine in sampled rows (counterfactual experiences, Icarte et al. 2022).

    What the robot does in a step does not depend on the state of the machine, so each stored step also shows what would
    have happened in every other state. The rows are made when they are sampled, not when steps are inserted: they need
    no memory, every state is equally likely in every step, and n-step returns remain exact, because the machine is
    advanced along the stored steps.

    Args:
        steps: steps of the machine.
        share: share of the rows that are drawn from the running training and changed.
    """

    def __init__(self, steps: MachineSteps, share: float) -> None:
        self._steps = steps
        self.share = share

    def apply(
        self,
        ring: ReplayRing,
        slots: Indices,
        out: Batch,
        *,
        gamma: float,
        n_step: int,
        reward: Reward,
        rng: np.random.Generator,
    ) -> None:
        """Draw another state of the machine for each row of ``out``, and change what depends on it.

        Args:
            ring: the buffer that the rows are from.
            slots: slots of the rows, of any shape.
            out: what ``ring.rows.gather`` returned for these slots, with the same ``gamma``, ``n_step`` and ``reward``;
                changed in place.
            gamma: discount per step.
            n_step: largest number of steps whose rewards are summed.
            reward: combines the reward terms into one number.
            rng: draws the states, uniformly from those in which an episode goes on.
        """
        current = slots.reshape(-1)
        states = rng.choice(self._steps.continuing, current.size)
        first, last = states, states
        total, discount = np.zeros(current.size, np.float32), np.ones(current.size, np.float32)
        goes_on = np.ones(current.size, np.bool_)
        for step in range(n_step):
            outcome = self._steps(states, ring.rows.rows(current, self._steps.keys))
            values = ring.rows.values(current)
            for name, column in outcome.terms.items():
                values[:, ring.terms.index(name)] = column
            rewards = reward.combine(ring.terms, values, gamma)
            total += np.where(goes_on, np.float32(gamma**step) * rewards, np.float32(0))
            discount[goes_on] = gamma ** (step + 1)
            discount[goes_on & outcome.terminated] = 0
            last = np.where(goes_on, outcome.states, last)
            states = outcome.states
            following, continues = ring.rows.following(current)
            goes_on &= continues & ~outcome.terminated
            if not goes_on.any():
                break
            current = np.where(goes_on, following, current)
        shape = slots.shape
        out["reward"][...] = total.reshape(shape)
        out["discount"][...] = discount.reshape(shape)
        out[f"observation/{MACHINE}"][...] = self._steps.one_hot(first).reshape(*shape, -1)
        out[f"next_observation/{MACHINE}"][...] = self._steps.one_hot(last).reshape(*shape, -1)
