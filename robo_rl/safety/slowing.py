"""Filters that slow the arm down: for its speed, for contact, and near singular postures."""

import math
from collections.abc import Callable

from robo_rl.core import PASSED, Observation, Verdict

from .actions import ActionMap
from .kinematics import Kinematics
from .motion import Action, ArmReader, Array

FAST = Verdict(changed=True, reasons=("speed",))
SINGULAR = Verdict(changed=True, reasons=("singularity",))


class EndEffectorSpeed:
    """Keeps the end effector's speed limits: a faster action is scaled down in the same direction.

    Args:
        linear: largest speed [m/s].
        angular: largest rotation speed [rad/s].
        actions: map between actions and motion.

    Attributes:
        shift: largest translation in a period [m].
        turn: largest rotation in a period [rad].
    """

    def __init__(self, linear: float, angular: float, actions: ActionMap) -> None:
        self.shift, self.turn = linear * actions.period, angular * actions.period
        self._actions = actions

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, scaled down to the largest speed if it is faster."""
        motion = self._actions.motion(observation, action)
        excess = self._excess(motion.displacement)
        if excess <= 1.0 + 1e-6:
            return action, PASSED
        # Scaling does not slow a motion that the robot's own controller cuts off: it is cut off less.
        excess = max(excess, self._excess(motion.uncut))
        return self._actions.scaled(observation, action, 1 / excess), FAST

    def _excess(self, displacement: list[float]) -> float:
        """Return the share of the limits that a displacement (6) uses."""
        x, y, z, roll, pitch, yaw = displacement
        return max(math.hypot(x, y, z) / self.shift, math.hypot(roll, pitch, yaw) / self.turn)


class ContactLimits:
    """Slows the arm as the force or torque at the wrist grows, and stops the episode at the limit.

    Args:
        force: limit [N].
        torque: limit [Nm].
        slow_from: share of the limits from which motion is slowed, linearly to 0 at the limit.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
    """

    def __init__(self, force: float, torque: float, slow_from: float, actions: ActionMap, reader: ArmReader) -> None:
        self.force, self.torque, self.slow_from = force, torque, slow_from
        self._actions = actions
        self._reader = reader

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, slowed down by contact."""
        force, torque = self._reader.contact(observation)
        load = max(force / self.force, torque / self.torque)
        if load <= self.slow_from:
            return action, PASSED
        if load < 1.0:
            factor = (1.0 - load) / (1.0 - self.slow_from)
            return self._actions.slowed(observation, action, factor), Verdict(changed=True, reasons=("contact",))
        message = (
            f"the wrist measures {force:.0f} N and {torque:.1f} Nm, the limits are {self.force:g} N and "
            f"{self.torque:g} Nm"
        )
        held = self._actions.hold(observation, action)
        return held, Verdict(changed=True, stop=True, reasons=("contact_stop",), message=message)


class SingularitySlowdown:
    """Slows motion towards a singular posture, as MoveIt Servo does. Motion away from it is free.

    Args:
        slow: condition number of the Jacobian from which motion is slowed.
        stop: condition number at which nothing moves closer.
        actions: map between actions and motion.
        reader: reads the arm's part of observations.
        kinematics: kinematics of the robot, used for the current posture.
        ahead: the same, used for the posture after the action.
        is_surely_regular: quick test of joint positions (n,): whether the condition number certainly is at most a
            limit. It may return False although the number is, so only computation time depends on it; None for no test.
    """

    def __init__(
        self,
        slow: float,
        stop: float,
        actions: ActionMap,
        reader: ArmReader,
        kinematics: Kinematics,
        ahead: Kinematics,
        is_surely_regular: Callable[[Array, float], bool] | None = None,
    ) -> None:
        self.slow, self._stop = slow, stop
        self._actions = actions
        self._reader = reader
        self._kinematics, self._ahead = kinematics, ahead
        self._is_surely_regular = is_surely_regular

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, action: Action, now_ns: int) -> tuple[Action, Verdict]:
        """Return ``action``, slowed down if it leads towards a singular posture."""
        joints = self._reader.joint_positions(observation)
        if self._is_surely_regular is not None and self._is_surely_regular(joints, self.slow):
            return action, PASSED
        if not math.isfinite(sum(joints.tolist())):  # left to the last filter, which rejects it
            return action, PASSED
        current = self._kinematics.condition(joints)
        if current <= self.slow:
            return action, PASSED
        following = self._ahead.condition(joints + self._actions.motion(observation, action).joints)
        if following <= current:
            return action, PASSED
        factor = max(0.0, (self._stop - current) / (self._stop - self.slow))
        return self._actions.slowed(observation, action, factor), SINGULAR
