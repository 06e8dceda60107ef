"""The controller of a simulated arm whose actions move its joints."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import shortest

from .config import ArmConfig, ControllerConfig
from .controller import Controller

Array = NDArray[np.float64]


class JointController(Controller):
    """Joint impedance towards a reference, which moves to its goal within limits of speed and acceleration.

    Velocity commands, as in a robot's own controllers, move the reference towards the limits. Effort commands replace
    it.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig, config: ControllerConfig) -> None:
        super().__init__(model, arm, config)
        n = len(arm.joints)
        self.goal = np.empty(n)
        self.reference = np.empty(n)
        self._reference_velocity = np.empty(n)
        self._in_motion = np.zeros(n, dtype=bool)
        dynamics = arm.dynamics
        self._stiffness = np.array(dynamics.stiffness or [config.joint_stiffness] * n, np.float64)
        self._damping = np.array(dynamics.damping or [config.joint_damping] * n, np.float64)
        self._timestep = model.opt.timestep
        self._speed = self._top_speed
        self._windup = np.inf
        self._efforts: Array | None = None

    def _arm_action_names(self, arm: ArmConfig) -> tuple[str, ...]:
        return tuple(arm.joints)

    def _begin(self, data: mujoco.MjData) -> None:
        self.goal[:] = self.reference[:] = data.qpos[self._qpos]
        self._reference_velocity[:] = 0.0
        self._in_motion[:] = False
        self._speed, self._windup, self._efforts = self._top_speed, np.inf, None

    def _set_reference(self, data: mujoco.MjData, action: Array) -> None:
        if self._config.action_space == "joint_delta":
            moves = action != 0  # as for the end effector, a resting arm does not creep
            goal = np.where(
                moves | self._in_motion, data.qpos[self._qpos] + self._config.joint_scale * action, self.goal
            )
            self._in_motion[:] = moves
        else:
            position = data.qpos[self._qpos]
            outside = np.where(self._endless, 0.0, position - np.clip(position, self.lower, self.upper))
            goal = self.lower + (self.upper - self.lower) * (action + 1) / 2 + outside
        self.set_goal(data, goal)

    def set_goal(self, data: mujoco.MjData, positions: Array) -> None:
        """Move to joint positions (n,) [rad or m], clipped to the range of references.

        A joint that is measured outside this range goes no further out, but need not come back at once. Endless joints
        turn in the shorter direction.
        """
        measured = data.qpos[self._qpos]
        np.clip(positions, np.minimum(self.lower, measured), np.maximum(self.upper, measured), out=self.goal)
        if self._endless.any():
            goal = self.reference + shortest(positions - self.reference, self._endless)
            self.goal[self._endless] = goal[self._endless]
        self._speed, self._windup, self._efforts = self._top_speed, np.inf, None

    def set_velocities(self, velocities: Array) -> None:
        """Move at joint velocities (n,) [rad/s or m/s] within the range of references.

        A blocked joint is pushed no harder than by a full action.
        """
        ahead = np.where(velocities < 0, self.lower, self.upper)
        ahead[self._endless] = np.copysign(np.inf, velocities[self._endless])
        self.goal[:] = np.where(velocities == 0, self.goal, ahead)
        self._speed = np.minimum(np.abs(velocities), self._top_speed)
        self._windup, self._efforts = self._config.joint_scale, None

    def set_efforts(self, efforts: Array) -> None:
        """Exert efforts (n,) beyond gravity and Coriolis forces [Nm or N]. Limits of speed and position still apply."""
        self._efforts = np.array(efforts)

    def _servo(self, data: mujoco.MjData, position: Array, velocity: Array) -> None:
        if self._efforts is not None:
            self._torque[:] = self._efforts
            return
        self.advance_reference()
        if self._windup < np.inf:
            np.clip(self.reference, position - self._windup, position + self._windup, out=self.reference)
        self._torque[:] = self._stiffness * (self.reference - position)
        self._torque += self._damping * (self._reference_velocity - velocity)

    def advance_reference(self) -> tuple[Array, Array]:
        """Move the reference towards the goal with bounded speed and acceleration, so that it can stop there.

        Returns:
            The reference (n,) [rad or m] and its velocity (n,) [rad/s or m/s]. Later calls change both.
        """
        acceleration, dt = self._config.joint_acceleration, self._timestep
        remaining = self.goal - self.reference
        stoppable = np.sqrt(2 * acceleration * np.abs(remaining))
        # The last tick covers the rest of the distance.
        speed = np.minimum(np.minimum(stoppable, np.abs(remaining) / dt), self._speed)
        change = np.copysign(speed, remaining) - self._reference_velocity
        self._reference_velocity += np.clip(change, -acceleration * dt, acceleration * dt)
        self.reference += self._reference_velocity * dt
        return self.reference, self._reference_velocity
