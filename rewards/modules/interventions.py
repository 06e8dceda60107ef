"""Reward computed only from interventions (RLIF, Luo et al. 2024)."""

from dataclasses import dataclass

import numpy as np

from robo_rl.core import TEACHERS, Batch, EnvSpec

from ..parts.module import Floats, Module


@dataclass(frozen=True)
class InterventionsConfig:
    """Reward of -1 for the step before an intervention, else 0."""

    def make(self, name: str, spec: EnvSpec, seed: int) -> "InterventionsReward":
        """Return the module of term ``name``."""
        return InterventionsReward()


class InterventionsReward(Module):
    """Penalty for interventions; see :class:`InterventionsConfig`.

    The penalty is for the last step of the policy, not for the first step of the intervention. Steps of a human or a
    scripted expert count as interventions. Demonstrations contain no steps of a policy, so their rewards are 0.
    """

    whole_episodes = True
    judges_state = False

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of the n steps of one episode, in order."""
        by_policy = ~np.isin(batch["source"], TEACHERS)
        rewards = np.zeros(len(by_policy), dtype=np.float32)
        rewards[:-1] -= by_policy[:-1] & ~by_policy[1:]
        return rewards
