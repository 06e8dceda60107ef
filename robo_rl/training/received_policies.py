"""Policies that an actor received from the learner process."""

from collections.abc import Callable

import numpy as np

from ..core import Agent, CheckpointError, EnvSpec, SpecError, State

KEPT_POLICIES = 3
"""Number of policies kept for going back, because several policies in a row may give invalid actions."""


class ReceivedPolicies:
    """Newest usable policies, the last of which acts.

    Attributes:
        refused: number of policies that were not usable.
    """

    def __init__(self, agent: Agent, spec: EnvSpec, notify: Callable[[str], None]) -> None:
        self._agent = agent
        self._observation, self._action = spec.observation, spec.action
        self._notify = notify
        self._policies: list[tuple[int, State]] = []
        self.refused = 0

    def __bool__(self) -> bool:
        """Return whether there is a policy to act with."""
        return bool(self._policies)

    @property
    def version(self) -> int:
        """Version of the policy that acts, -1 if there is none."""
        return self._policies[-1][0] if self._policies else -1

    def take(self, version: int, policy: State) -> None:
        """Act with a policy from now on; if it is not usable, continue with the previous one."""
        try:
            self._agent.load_policy(policy)
            self._probe()
        except (CheckpointError, SpecError) as error:
            self.refused += 1
            self._notify(f"policy {version} is not used: {error}")
            if self._policies:
                self._agent.load_policy(self._policies[-1][1])
            return
        self._policies = [*self._policies, (version, policy)][-KEPT_POLICIES:]

    def reject(self, reason: str) -> None:
        """Go back to the previous policy; if there is none, wait for the next one."""
        self.refused += 1
        self._notify(f"policy {self.version} is not used any more: {reason}")
        self._policies.pop()
        self._agent.forget_plan(explore=True)
        if self._policies:
            self._agent.load_policy(self._policies[-1][1])

    def _probe(self) -> None:
        """Check the policy's decision for an observation of zeros, which is an action or an action chunk.

        Raises:
            SpecError: if an action is invalid.
        """
        zeros = {key: np.zeros(array.shape, array.dtype) for key, array in self._observation.items()}
        self._agent.forget_plan(explore=False)
        for _ in range(self._agent.config.action_chunk):
            self._action.check("action of the policy", self._agent.act(zeros, explore=False))
