"""Guards: which observations are believed."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import PASSED, EnvSpec, Observation, SpecError, Verdict

from .motion import ArmReader

Array = NDArray[np.float64]


def _fault(reason: str, message: str) -> Verdict:
    return Verdict(stop=True, reasons=(reason,), message=message)


class ValidObservation:
    """Every key is there, with the shape, dtype and range of the spec, and all values are finite.

    Args:
        spec: of the environment.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec

    def reset(self) -> None:
        """Nothing to forget."""

    def __call__(self, observation: Observation, stamp_ns: int, now_ns: int) -> Verdict:
        try:
            self._spec.check_observation(observation)
        except SpecError as error:
            return _fault("observation_invalid", str(error))
        return PASSED


class PlausibleJoints:
    """Joint positions and velocities are possible, and positions do not jump.

    Args:
        lower: lowest believable joint positions (n,) [rad].
        upper: highest (n,) [rad].
        velocity: highest believable joint speeds (n,) [rad/s].
        max_jump: largest motion between two observations beyond what the measured velocities explain [rad].
        reader: of the observation.
    """

    def __init__(self, lower: Array, upper: Array, velocity: Array, max_jump: float, reader: ArmReader) -> None:
        self._lower, self._upper, self._velocity, self._max_jump = lower, upper, velocity, max_jump
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
        jump = np.abs(position - last[0]) - explained
        if (jump > self._max_jump).any():
            joint = int(jump.argmax())
            return _fault(
                "observation_jump",
                f"joint {joint + 1} jumped from {last[0][joint]:.3f} to {position[joint]:.3f} rad in {seconds:.3f} s",
            )
        return PASSED


class FrozenImages:
    """No camera gives the same picture, pixel by pixel, again and again under new stamps.

    Args:
        keys: of the images in the observation.
        limit: so many equal images in a row are a fault.
    """

    def __init__(self, keys: tuple[str, ...], limit: int) -> None:
        self._keys, self._limit = keys, limit
        self.reset()

    def reset(self) -> None:
        """Forget the pictures."""
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
