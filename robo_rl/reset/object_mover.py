"""The object of a task, which the arm moves by a script."""

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import EnvSpec

from .arm import ArmGuide, NotReachedError
from .config import HomingConfig, ScriptConfig, WaypointConfig
from .practice import Element

Array = NDArray[np.float64]

HELD_DISTANCE = 0.04
"""Largest distance of the object from the end effector at which it may be in the gripper [m]."""


class ObjectMover:
    """The object and the motions of the arm that put it back to where episodes begin.

    Args:
        script: places of the object and the waypoints for moving it.
        spec: spec of the backend.
        guide: controller of the arm; its newest observation has the position of the object.
        config: tolerance and time limit of waypoints, and the perturbation of further attempts.

    Raises:
        ConfigError: if the observation lacks the object.
    """

    def __init__(self, script: ScriptConfig, spec: EnvSpec, guide: ArmGuide, config: HomingConfig) -> None:
        self._script, self._guide, self._config = script, guide, config
        self._to_object = [Element(spec, f"{script.object}_{axis}") for axis in "xyz"]

    @property
    def position(self) -> Array:
        """Position of the object (3,) in the base frame [m]."""
        return self._guide.position + self._guide.read(self._to_object)

    def can_fetch(self) -> bool:
        """Return whether the object is in the part of the workspace from which the arm can fetch it."""
        if not self._script.within:
            return True
        low, high = np.array(self._script.within)
        position = self.position[:2]
        return bool((low <= position).all() and (position <= high).all())

    def is_in_place(self) -> bool:
        """Return whether the object lies where episodes begin."""
        distance = np.abs(self._place()[1])
        return bool((distance <= np.append(self._script.spread, 0.0) + self._script.tolerance).all())

    def put_back(self, rng: np.random.Generator, again: bool) -> None:
        """Put the object back if it is not in place, or if the script moves it every time.

        Args:
            rng: random numbers for the place and, if ``again``, for the perturbation of the grasp.
            again: whether an earlier attempt has failed.

        Raises:
            NotReachedError: if a waypoint is not reached or the object is not in the gripper.
        """
        script = self._script
        if not script.every_time and self.is_in_place():
            return
        place = self._place()[0] + np.append(rng.uniform(-1, 1, 2) * script.spread, 0.0)
        if not self._is_held():
            aside = rng.uniform(-1, 1, 3) * self._config.perturbation * again
            self._play(script.grasp, aside, place, HELD_DISTANCE if again else 0.0)
        self._play(script.put, np.zeros(3), place)

    def _play(self, waypoints: list[WaypointConfig], aside: Array, place: Array, enough: float = 0.0) -> None:
        """Follow a part of the script, with an offset ``aside`` (3,) from the object and the target ``place`` (3,).

        An object at the limit of the arm's reach is grasped from the nearest point, if it is within ``enough`` [m].
        """
        guide = self._guide
        for waypoint in waypoints:
            offset, start = np.array(waypoint.offset), guide.position

            def target(at: str = waypoint.at, offset: Array = offset, start: Array = start) -> Array:
                to_object = guide.read(self._to_object)
                if at == "object":
                    return np.array(guide.position + to_object + offset + aside)
                if at == "here":
                    return np.array(start + offset)
                if float(np.linalg.norm(to_object)) > HELD_DISTANCE:
                    raise NotReachedError("the object is not in the gripper")
                return np.array(place - to_object + offset)

            guide.go(target, waypoint.gripper, self._config.tolerance, self._config.seconds, enough)
            guide.stay(waypoint.gripper, waypoint.seconds)

    def _place(self) -> tuple[Array, Array]:
        """Return the nearest place (3,) and the object's displacement (3,) from it [m]."""
        position = self.position
        places = np.array(self._script.places)
        nearest: Array = places[np.linalg.norm(places - position, axis=1).argmin()]
        return nearest, position - nearest

    def _is_held(self) -> bool:
        """Return whether the object is lifted and between the fingers."""
        lifted = self._place()[1][2] > self._script.tolerance
        return bool(lifted and np.linalg.norm(self._guide.read(self._to_object)) <= HELD_DISTANCE)
