"""The board, the spots on it and the pad of ``wipe``.

Spots and scratch are bodies without contacts that lie on the board or are hidden inside it. What was wiped is therefore
part of the state of the physics: images show it, and it is saved and restored with that state.
"""

import math

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

BOARD_BODY, PAD_BODY, PAD_SITE, SCRATCH_BODY = "board", "pad", "pad_face", "scratch"
BOARD_CENTRE = (0.5, 0.0)
"""Middle of the board (x, y) [m]."""
BOARD_HALF = (0.16, 0.22, 0.035)
"""Half sizes of the board, whose lower part is inside the table [m]."""
BOARD_HEIGHT = 0.05
"""Nominal height of the board's surface [m]."""
PAD_HALF = (0.02, 0.015)
"""Half width of the pad along the hand's x and y axes [m]."""
PAD_DEPTH = 0.03
"""Distance from the end effector to the pad's face [m]."""
HANDLE_HALF_WIDTH = 0.014
"""Half width of the pad's handle, which the fingers hold [m]."""
PAD_MASS = 0.03
"""Mass of the pad [kg]."""
SPOT_RADIUS = 0.008
"""Radius of a spot [m]."""
HIDDEN = 0.02
"""Depth inside the board of hidden bodies [m]."""

WHITE, FRAME = (0.95, 0.95, 0.93, 1.0), (0.55, 0.57, 0.60, 1.0)
INK, RED = (0.10, 0.16, 0.50, 1.0), (0.75, 0.08, 0.06, 1.0)
SPONGE, FLEECE, GREY = (0.95, 0.80, 0.25, 1.0), (0.18, 0.45, 0.25, 1.0), (0.30, 0.31, 0.34, 1.0)

BOX = mujoco.mjtGeom.mjGEOM_BOX
UNTOUCHED = {"contype": 0, "conaffinity": 0, "mass": 0.0}


def spot_name(number: int) -> str:
    return f"spot_{number}"


def add_board(spec: mujoco.MjSpec, spots: int) -> None:
    """Add the board, ``spots`` spots and a scratch, which :class:`Board` places."""
    x, y, z = BOARD_HALF
    board = spec.worldbody.add_body(name=BOARD_BODY, mocap=True)
    board.add_geom(name=BOARD_BODY, type=BOX, pos=(0, 0, -z), size=(x, y, z), rgba=WHITE)
    rim = 0.006
    board.add_geom(type=BOX, pos=(0, 0, -z - 0.004), size=(x + rim, y + rim, z), rgba=FRAME, **UNTOUCHED)
    for number in range(spots):
        spot = spec.worldbody.add_body(name=spot_name(number), mocap=True)
        shape = mujoco.mjtGeom.mjGEOM_CYLINDER
        spot.add_geom(type=shape, size=(SPOT_RADIUS, 0.0006, 0), rgba=INK, **UNTOUCHED)
    scratch = spec.worldbody.add_body(name=SCRATCH_BODY, mocap=True)
    for yaw in (np.pi / 4, -np.pi / 4):
        turn = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
        scratch.add_geom(type=BOX, size=(0.03, 0.0025, 0.0008), quat=turn, rgba=RED, **UNTOUCHED)


def add_pad(spec: mujoco.MjSpec, end_effector: str) -> None:
    """Add the pad, fixed to the end effector: a handle between the fingers, sponge, and the fleece that wipes."""
    # The names of a scene are read from a scene without an arm, in which any parent will do.
    site = next((candidate for candidate in spec.sites if candidate.name == end_effector), None)
    parent = spec.worldbody if site is None else site.parent
    pose = {} if site is None else {"pos": site.pos, "quat": site.quat}
    pad = parent.add_body(name=PAD_BODY, **pose)
    x, y = PAD_HALF
    top, fleece = 0.011, 0.004
    pad.add_geom(
        type=BOX, pos=(0, 0, (top - 0.012) / 2), size=(x / 2, HANDLE_HALF_WIDTH, (top + 0.012) / 2), rgba=GREY,
        **UNTOUCHED,
    )  # fmt: skip
    middle, half = (top + PAD_DEPTH - fleece) / 2, (PAD_DEPTH - fleece - top) / 2
    pad.add_geom(type=BOX, pos=(0, 0, middle), size=(x, y, half), rgba=SPONGE, **UNTOUCHED)
    # Soft: it gives by a few millimetres. Its softness and friction have priority over the board's.
    pad.add_geom(
        name=PAD_BODY, type=BOX, pos=(0, 0, PAD_DEPTH - fleece / 2), size=(x, y, fleece / 2), rgba=FLEECE,
        mass=PAD_MASS, friction=(0.5, 0.005, 0.0001), solref=(0.04, 1.0), priority=1, contype=1, conaffinity=0,
    )  # fmt: skip
    pad.add_site(name=PAD_SITE, pos=(0, 0, PAD_DEPTH), size=(0.003, 0, 0), group=4)


class Board:
    """The board of a compiled model: places it, hides wiped spots, and reads their state.

    Args:
        model: compiled model with the bodies from :func:`add_board`.
        spots: number of spots.
    """

    def __init__(self, model: mujoco.MjModel, spots: int) -> None:
        self._body = int(model.body(BOARD_BODY).mocapid[0])
        self._spots = np.array([int(model.body(spot_name(number)).mocapid[0]) for number in range(spots)])
        self._scratch = int(model.body(SCRATCH_BODY).mocapid[0])

    def place(self, data: mujoco.MjData, height: float, tilt: float, axis: float, spots: ArrayLike) -> None:
        """Place the board with all spots on it and no scratch.

        Args:
            data: MuJoCo state, whose ``data.mocap_pos`` and ``data.mocap_quat`` receive the poses.
            height: height of the middle of the surface above the table [m].
            tilt: angle between the board and the table [rad].
            axis: direction of the horizontal axis of the tilt, from the x axis [rad].
            spots: positions of the spots (n, 2) in x and y [m].
        """
        sine = math.sin(tilt / 2)
        bodies = [self._body, *self._spots, self._scratch]
        data.mocap_quat[bodies] = (math.cos(tilt / 2), sine * math.cos(axis), sine * math.sin(axis), 0.0)
        data.mocap_pos[bodies] = (*BOARD_CENTRE, height)
        data.mocap_pos[self._spots, :2] = spots
        self.renew(data)

    def renew(self, data: mujoco.MjData) -> None:
        """Restore all spots in their places, and remove the scratch."""
        away = data.mocap_pos[self._spots, :2] - data.mocap_pos[self._body, :2]
        x, y, z = self.normal(data)
        data.mocap_pos[self._spots, 2] = data.mocap_pos[self._body, 2] - away @ (x / z, y / z)
        data.mocap_pos[self._scratch] = data.mocap_pos[self._body] - (0.0, 0.0, HIDDEN)

    def normal(self, data: mujoco.MjData) -> Array:
        """Return the unit vector (3,) that points up from the surface."""
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, data.mocap_quat[self._body])
        return matrix[2::3]

    def spots(self, data: mujoco.MjData) -> Array:
        """Return the positions (n, 3) of the spots in the base frame [m]; wiped spots are inside the board."""
        places: Array = data.mocap_pos[self._spots]
        return places

    def direction(self, data: mujoco.MjData) -> Array:
        """Return the horizontal direction (2,) of the line, from the first spot to the last."""
        places = data.mocap_pos[self._spots, :2]
        along: Array = places[-1] - places[0]
        return along / np.linalg.norm(along)

    def wiped(self, data: mujoco.MjData) -> NDArray[np.bool_]:
        """Return which spots (n,) were wiped."""
        wiped: NDArray[np.bool_] = self._height(data, self._spots) < -HIDDEN / 2
        return wiped

    def wipe(self, data: mujoco.MjData, spots: NDArray[np.bool_]) -> None:
        """Hide those spots (n,) for which ``spots`` is true, unless they are hidden already."""
        data.mocap_pos[self._spots[spots & ~self.wiped(data)], 2] -= HIDDEN

    def scratched(self, data: mujoco.MjData) -> bool:
        """Return whether the surface is scratched."""
        return bool(self._height(data, self._scratch) > -HIDDEN / 2)

    def scratch(self, data: mujoco.MjData, position: Array) -> None:
        """Show the scratch on the surface at ``position`` (3,) in the base frame [m]."""
        normal = self.normal(data)
        data.mocap_pos[self._scratch] = position - (position - data.mocap_pos[self._body]) @ normal * normal

    def _height(self, data: mujoco.MjData, bodies: NDArray[np.int_] | int) -> Array:
        """Return the height of bodies above the surface [m]."""
        height: Array = (data.mocap_pos[bodies] - data.mocap_pos[self._body]) @ self.normal(data)
        return height
