"""The policies that a learner sent to an actor."""

from collections.abc import Callable

import numpy as np

from ..core import Agent, CheckpointError, EnvSpec, SpecError, State

KEPT_POLICIES = 3
"""Policies kept to go back to: one that gives impossible actions may have been preceded by others that do."""


class ReceivedPolicies:
    """The newest policies that are of use, the last of which acts.

    Args:
        agent: acts with them.
        spec: of the environment.
        tell: tells people.

    Attributes:
        refused: number of policies that were of no use.
    """

    def __init__(self, agent: Agent, spec: EnvSpec, tell: Callable[[str], None]) -> None:
        self._agent = agent
        self._observation, self._action = spec.observation, spec.action
        self._tell = tell
        self._policies: list[tuple[int, State]] = []
        self.refused = 0

    def __bool__(self) -> bool:
        """Whether there is one to act with."""
        return bool(self._policies)

    @property
    def version(self) -> int:
        """Version of the policy that acts, -1 if none does."""
        return self._policies[-1][0] if self._policies else -1

    def take(self, version: int, policy: State) -> None:
        """Act with a policy from now on, unless it is of no use: then go on with the one before."""
        try:
            self._agent.load_policy(policy)
            self._probe()
        except (CheckpointError, SpecError) as error:
            self.refused += 1
            self._tell(f"policy {version} is not used: {error}")
            if self._policies:
                self._agent.load_policy(self._policies[-1][1])
            return
        self._policies = [*self._policies, (version, policy)][-KEPT_POLICIES:]

    def reject(self, reason: str) -> None:
        """Go back to the policy before the one that acts; where there is none, wait for the next."""
        self.refused += 1
        self._tell(f"policy {self.version} is not used any more: {reason}")
        self._policies.pop()
        self._agent.forget_plan(explore=True)
        if self._policies:
            self._agent.load_policy(self._policies[-1][1])

    def _probe(self) -> None:
        """Check what the policy decides on an observation of zeros: an action, or a chunk of them.

        Raises:
            SpecError: if an action is impossible.
        """
        zeros = {key: np.zeros(array.shape, array.dtype) for key, array in self._observation.items()}
        self._agent.forget_plan(explore=False)
        for _ in range(self._agent.config.action_chunk):
            self._action.check("action of the policy", self._agent.act(zeros, explore=False))
