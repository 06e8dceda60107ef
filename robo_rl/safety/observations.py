"""Guards that decide which observations are accepted."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, EnvSpec, Observation, RobotDescription, SpecError, Verdict, shortest

from .kinematics import Kinematics
from .motion import ArmReader

Array = NDArray[np.float64]

TURN_TOLERANCE = 0.2
"""Largest rotation between the end effector as measured and as computed from its joints [rad]."""
TURN_JUMP = 0.1
"""Largest change of that rotation between two observations [rad]."""
SKEW = 0.1
"""Largest time between the measurements of the parts of one observation [s]."""
SPEED_SHARE = 0.5
"""Largest difference between the end effector's velocity as measured and as computed from its joints: this share of the
largest speeds, and of the speed itself."""


def _fault(reason: str, message: str) -> Verdict:
    return Verdict(stop=True, reasons=(reason,), message=message)


class ValidObservation:
    """Checks that every key is present with the shape, dtype and range of the spec, and that all values are finite.

    Args:
        spec: spec of the environment.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec

    def reset(self) -> None:
        """Do nothing: there is no state to reset."""

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        try:
            self._spec.check_observation(observation)
        except SpecError as error:
            return _fault("observation_invalid", str(error))
        return PASSED


class PlausibleJoints:
    """Checks that joint positions and velocities are plausible, and that positions do not jump.

    Args:
        lower: lowest plausible joint positions (n,) [rad].
        upper: highest plausible joint positions (n,) [rad].
        velocity: highest plausible joint speeds (n,) [rad/s].
        max_jump: largest motion between two observations beyond what the measured velocities explain [rad].
        endless: which joints (n,) turn without limits; these move by the shorter way round.
        reader: reads the arm's part of observations.
    """

    def __init__(
        self,
        lower: Array,
        upper: Array,
        velocity: Array,
        max_jump: float,
        endless: NDArray[np.bool_],
        reader: ArmReader,
    ) -> None:
        self._lower, self._upper, self._velocity, self._max_jump = lower, upper, velocity, max_jump
        self._endless = endless
        self._reader = reader
        self.reset()

    def reset(self) -> None:
        """Forget the last observation: the arm may have been moved."""
        self._last: tuple[Array, Array, int] | None = None

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        position, velocity = self._reader.joint_positions(observation), self._reader.joint_velocities(observation)
        outside = np.maximum(self._lower - position, position - self._upper)
        if (outside > 0).any():
            joint = int(outside.argmax())
            return _fault(
                "observation_range",
                f"joint {joint + 1} is measured at {position[joint]:.3f} rad, beyond all that is believed "
                f"({self._lower[joint]:.3f} to {self._upper[joint]:.3f} rad)",
            )
        if (np.abs(velocity) > self._velocity).any():
            joint = int((np.abs(velocity) / self._velocity).argmax())
            return _fault(
                "observation_range",
                f"joint {joint + 1} is measured at {velocity[joint]:.2f} rad/s, beyond all that is believed "
                f"({self._velocity[joint]:.2f} rad/s)",
            )
        last, self._last = self._last, (position, velocity, stamp_ns)
        if last is None:
            return PASSED
        seconds = (stamp_ns - last[2]) * 1e-9
        explained = np.maximum(np.abs(velocity), np.abs(last[1])) * max(seconds, 0.0)
        jump = np.abs(shortest(position - last[0], self._endless)) - explained
        if (jump > self._max_jump).any():
            joint = int(jump.argmax())
            return _fault(
                "observation_jump",
                f"joint {joint + 1} jumped from {last[0][joint]:.3f} to {position[joint]:.3f} rad in {seconds:.3f} s",
            )
        return PASSED


class PlausibleEndEffector:
    """Checks that the end effector's pose and velocity match the measured joints, and that the pose does not jump.

    On a robot, joints, pose and velocity are measured separately, and differ by calibration and by up to :data:`SKEW`
    in time. All computations take the same time for every observation.

    Args:
        spec: names of the elements of ``state``.
        robot: kinematics and largest speeds.
        tolerance: largest distance between the measured position and that computed from the joints [m].
        max_jump: largest change of the vector between these two from one observation to the next [m].
        reader: reads the arm's part of observations.
    """

    def __init__(
        self, spec: EnvSpec, robot: RobotDescription, tolerance: float, max_jump: float, reader: ArmReader
    ) -> None:
        names = spec.observation["state"].names
        twist = [f"end_effector_{kind}{axis}" for kind in "vw" for axis in "xyz"]
        self._twist = [names.index(name) for name in twist] if set(twist) <= set(names) else None
        self._reader, self._kinematics = reader, Kinematics(robot)
        self._tolerance, self._max_jump = tolerance, max_jump
        self._fastest = np.array([robot.linear_speed, robot.angular_speed])
        self.reset()

    def reset(self) -> None:
        """Forget the last observation: the arm may have been moved."""
        self._last: tuple[Array, Array] | None = None

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        reader, joints = self._reader, self._reader.joint_positions(observation)
        rotation = reader.rotation(observation)
        if np.abs(rotation.T @ rotation - np.eye(3)).max() > 0.1:
            return _fault("observation_range", "the measured orientation of the end effector is no rotation")
        velocity = self._kinematics.jacobian(joints) @ reader.joint_velocities(observation)
        speeds = np.minimum(_lengths(velocity), self._fastest)
        position, turned = self._kinematics.pose(joints)
        offset = reader.position(observation) - position
        turn = rotation @ np.reshape(turned, (3, 3)).T
        verdict = self._compare(offset, turn, self._last, SKEW * speeds)
        if verdict is PASSED and self._twist is not None:
            verdict = self._compare_velocity(observation["state"][self._twist].astype(np.float64), velocity)
        self._last = offset, turn
        return verdict

    def _compare(self, offset: Array, turn: Array, last: tuple[Array, Array] | None, moved: Array) -> Verdict:
        """Compare the measured pose with that of the joints.

        Args:
            offset: translation from the pose of the joints to the measured one (3,) [m].
            turn: rotation from the pose of the joints to the measured one (3, 3).
            last: offset and turn of the observation before.
            moved: how far the end effector moves and turns (2,) in the time that measurements may be apart [m, rad].
        """
        away, angle = float(np.linalg.norm(offset)), _angle(turn)
        if away > self._tolerance + moved[0] or angle > TURN_TOLERANCE + moved[1]:
            return _fault(
                "observation_mismatch",
                f"the end effector is measured {away:.3g} m and {angle:.3f} rad from where the measured joints have "
                f"it; {self._tolerance + moved[0]:.3f} m and {TURN_TOLERANCE + moved[1]:.3f} rad are allowed "
                "(safety.observations.pose_tolerance)",
            )
        if last is None:
            return PASSED
        away, angle = float(np.linalg.norm(offset - last[0])), _angle(turn @ last[1].T)
        if away > self._max_jump + moved[0] or angle > TURN_JUMP + moved[1]:
            return _fault(
                "observation_jump",
                f"the measured pose of the end effector jumped by {away:.3f} m and {angle:.3f} rad, which the joints "
                f"did not; {self._max_jump + moved[0]:.3f} m and {TURN_JUMP + moved[1]:.3f} rad are allowed "
                "(safety.observations.max_pose_jump)",
            )
        return PASSED

    def _compare_velocity(self, measured: Array, velocity: Array) -> Verdict:
        """Compare the measured velocity (6,) with that of the joints (6,) [m/s, rad/s]."""
        differences = _lengths(measured - velocity)
        allowed = SPEED_SHARE * (self._fastest + _lengths(velocity))
        if (differences <= allowed).all():
            return PASSED
        return _fault(
            "observation_mismatch",
            f"the velocity of the end effector is measured {differences[0]:.3g} m/s and {differences[1]:.3g} rad/s "
            f"from that of the measured joints; {allowed[0]:.2f} m/s and {allowed[1]:.2f} rad/s are allowed. Is it in "
            "the base frame?",
        )


def _lengths(twist: Array) -> Array:
    """Return the lengths (2,) of the linear and the angular part of a twist (6,)."""
    lengths: Array = np.linalg.norm(twist.reshape(2, 3), axis=1)
    return lengths


def _angle(rotation: Array) -> float:
    """Return the angle of a rotation matrix (3, 3) [rad] without amplifying noise."""
    skew = rotation - rotation.T  # contains the sine, as the trace contains the cosine
    return float(np.arctan2(np.linalg.norm(skew) / np.sqrt(2), np.trace(rotation) - 1))


class FrozenImages:
    """Checks that no camera returns the same image, pixel by pixel, again and again under new time stamps.

    Args:
        keys: keys of the images in the observation.
        limit: number of equal images in a row that is a fault.
    """

    def __init__(self, keys: tuple[str, ...], limit: int) -> None:
        self._keys, self._limit = keys, limit
        self.reset()

    def reset(self) -> None:
        """Forget the last images."""
        self._last: dict[str, NDArray[np.uint8]] = {}
        self._equal = dict.fromkeys(self._keys, 1)

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        for key in self._keys:
            image = observation[key]
            same = key in self._last and np.array_equal(image, self._last[key])
            self._equal[key] = self._equal[key] + 1 if same else 1
            self._last[key] = image.copy()
            if self._equal[key] >= self._limit:
                return _fault("camera_frozen", f"{key}: {self._equal[key]} pictures in a row are equal in every pixel")
        return PASSED
