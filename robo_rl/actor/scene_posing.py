"""Poses of an arm's joints and fingers in a MuJoCo model, from what is observed of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import RobotDescription


class ArmPosing:
    """The joints and fingers of an arm, set to the positions in the observation ``state``.

    Args:
        robot: the arm.
        names: names of the elements of ``state``.

    Attributes:
        unobserved: names of the joints whose positions are not in ``state``.
        addresses: places in ``qpos`` of the joints and fingers.
    """

    def __init__(self, robot: RobotDescription, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}

        def address(joint: str) -> int:
            return int(robot.model.joint(joint).qposadr[0])

        self._joints = [(address(name), name) for name in robot.joints]
        self._fingers = [
            (address(name), *stroke) for name, stroke in zip(robot.fingers, robot.finger_strokes, strict=True)
        ]
        self.unobserved = [name for name in robot.joints if not self._is_observed(name)]
        self.addresses = [*(joint[0] for joint in self._joints), *(finger[0] for finger in self._fingers)]

    def place(self, data: Any, state: NDArray[np.float32]) -> None:
        """Write the observed positions into the ``qpos`` of ``data``; an unobserved opening is left as it is."""
        for address, name in self._joints:
            data.qpos[address] = self._position(state, name)
        if "gripper_opening" in self._places:
            opening = float(state[self._places["gripper_opening"]])
            for address, closed, opened in self._fingers:
                data.qpos[address] = closed + opening * (opened - closed)

    def _is_observed(self, joint: str) -> bool:
        return f"{joint}_position" in self._places or {f"{joint}_sin", f"{joint}_cos"} <= self._places.keys()

    def _position(self, state: NDArray[np.float32], joint: str) -> float:
        place = self._places.get(f"{joint}_position")
        if place is not None:
            return float(state[place])
        return float(np.arctan2(state[self._places[f"{joint}_sin"]], state[self._places[f"{joint}_cos"]]))
