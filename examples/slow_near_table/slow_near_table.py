"""Safety filter that slows the arm down near the table."""

import numpy as np

from robo_rl.core import PASSED, ConfigError, EnvSpec, Observation, RobotDescription, Verdict

SLOWED = Verdict(changed=True, reasons=("slow_near_table",))


class SlowNearTable:
    """Scales actions by ``factor`` while the end effector is below ``height`` [m]. The gripper is not scaled."""

    def __init__(self, spec: EnvSpec, robot: RobotDescription | None, height: float = 0.1, factor: float = 0.5) -> None:
        if not spec.action_space.endswith("_delta"):
            raise ConfigError(f"SlowNearTable scales deltas; this robot's actions are {spec.action_space}")
        self._z = spec.observation["state"].names.index("end_effector_z")
        self._height = height
        self._factors = np.array([1 if name == "gripper" else factor for name in spec.action.names], np.float32)

    def reset(self) -> None:
        """Begin an episode. The filter has no state."""

    def __call__(self, observation: Observation, action: np.ndarray, now_ns: int) -> tuple[np.ndarray, Verdict]:
        if observation["state"][self._z] > self._height:
            return action, PASSED
        return action * self._factors, SLOWED
