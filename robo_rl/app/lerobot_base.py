"""LeRobot policies as base policies, with the names that the export to LeRobot gives to observations."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core import EnvSpec, Observation
from ..deployment.lerobot_policy import LeRobotPolicy
from ..replay.interchange.lerobot_layout import feature_of
from ..residual import BasePolicy


def open_lerobot(folder: Path) -> LeRobotPolicy:
    """Return the policy in a folder of LeRobot, see :class:`.LeRobotPolicy`."""
    return LeRobotPolicy(folder, feature_of)


class LeRobotBase(BasePolicy):
    """A LeRobot policy as a base policy: LeRobot keeps its chunk of actions, and samples from its own generator."""

    def __init__(self, policy: LeRobotPolicy) -> None:
        super().__init__(lambda observation, _: policy.decide(observation), policy.name, policy.fingerprint)
        self._policy, self.observed_steps = policy, policy.observed_steps

    def differences(self, spec: EnvSpec) -> list[str]:
        """Return one line for each input or output of the policy that ``spec`` does not have in the same shape.

        LeRobot's process starts if there are none.

        Raises:
            LeRobotError: see :meth:`.LeRobotPolicy.start`.
        """
        if not (lines := self._policy.differences(spec)):
            self._policy.start()
        return lines

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return the next action (A,) of LeRobot's chunk; see :meth:`.LeRobotPolicy.act`."""
        return self._policy.act(observation)

    def begin_episode(self, seed: int | None) -> None:
        """Begin an episode, in which what the policy samples follows from ``seed``."""
        super().begin_episode(seed)
        self._policy.begin_episode(seed)

    def forget_plan(self, executed: NDArray[np.float32] | None = None) -> None:
        """Let the policy decide on new actions from its latest observations."""
        super().forget_plan()
        self._policy.forget_actions()
