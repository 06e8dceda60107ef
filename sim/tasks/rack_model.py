"""A bar with two colours, and racks with a roofed slot for it, for MjSpec.

Frame of a rack: origin on the table below the middle of the slot's mouth, x into the slot, z up. Frame of the bar
("bar" body): origin in its middle, x along it to the middle of its red end. [m].
"""

import math

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

BAR = "bar"

BAR_LENGTH = 0.16
BAR_WIDTH = 0.03
"""Width of the bar, and its height."""
BAR_MASS = 0.1
"""Mass of the bar [kg]."""

FLOOR_HEIGHT = 0.11
"""Height of the slot's floor above the table: a bar less than half in the slot leans so steeply that it slides out."""
SLOT_DEPTH = 0.1
"""Depth of the slot from the mouth to the back wall, more than half the bar."""
HEADROOM = 0.012
"""Gap between a bar on the slot's floor and the roof."""
WALL = 0.006
"""Thickness of walls and roof."""

COLOURS = {"red": (0.80, 0.18, 0.14, 1.0), "blue": (0.14, 0.28, 0.80, 1.0)}
WALL_COLOUR = (0.86, 0.87, 0.88, 1.0)
ROOF_COLOUR = (0.75, 0.85, 0.90, 0.35)  # clear plastic: cameras see the end of the bar

_FIRM = {"solref": [0.005, 1.0], "solimp": [0.97, 0.995, 0.0005, 0.5, 2.0]}
"""Contacts that give by less than a millimetre under the grip, although the bar is light."""
# Its priority equals that of the pads, so the greater friction, theirs, applies. The stiffness is almost the bar's
# alone.
_BAR = {"priority": 1, "solmix": 20.0, "friction": (1.0, 0.01, 0.0005), **_FIRM}
# Smooth plastic: by priority, its low friction applies, not the bar's. On it, a tilted bar slides instead of jamming.
_RACK = {"type": mujoco.mjtGeom.mjGEOM_BOX, "priority": 2, "friction": (0.1, 0.005, 0.0001), **_FIRM}


def add_bar(spec: mujoco.MjSpec) -> None:
    """Add a free bar, whose free joint has the name of its body."""
    bar = spec.worldbody.add_body(name=BAR)
    bar.add_freejoint(name=BAR)
    half = (BAR_LENGTH / 4, BAR_WIDTH / 2, BAR_WIDTH / 2)
    for colour, sign in (("red", 1), ("blue", -1)):
        bar.add_geom(
            name=f"bar_{colour}", type=mujoco.mjtGeom.mjGEOM_BOX, pos=(sign * BAR_LENGTH / 4, 0, 0), size=half,
            mass=BAR_MASS / 2, rgba=COLOURS[colour], **_BAR,
        )  # fmt: skip


def add_rack(spec: mujoco.MjSpec, name: str, colour: str, clearance: float) -> None:
    """Add a rack whose slot is ``clearance`` [m] wider than the bar, with half of it on each side.

    The rack is a mocap body, fixed to the table: place it by :func:`place_rack`. Its base has one of ``COLOURS``.
    """
    rack = spec.worldbody.add_body(name=name, mocap=True)
    inner, height = (BAR_WIDTH + clearance) / 2, BAR_WIDTH + HEADROOM
    outer, length, middle = inner + WALL, SLOT_DEPTH + WALL, (SLOT_DEPTH + WALL) / 2
    base = FLOOR_HEIGHT / 2
    rack.add_geom(pos=(middle, 0, base), size=(length / 2, outer, base), rgba=COLOURS[colour], **_RACK)
    level = FLOOR_HEIGHT + height / 2
    for sign in (-1, 1):
        rack.add_geom(
            pos=(middle, sign * (inner + WALL / 2), level), size=(length / 2, WALL / 2, height / 2),
            rgba=WALL_COLOUR, **_RACK,
        )  # fmt: skip
    rack.add_geom(pos=(SLOT_DEPTH + WALL / 2, 0, level), size=(WALL / 2, inner, height / 2), rgba=WALL_COLOUR, **_RACK)
    rack.add_geom(
        pos=(middle, 0, FLOOR_HEIGHT + height + WALL / 2), size=(length / 2, outer, WALL / 2), rgba=ROOF_COLOUR, **_RACK
    )


def place_rack(data: mujoco.MjData, mocap: int, mouth: ArrayLike, yaw: float) -> None:
    """Put the rack with the mocap index ``mocap`` on the table: ``mouth`` (2,) [m], ``yaw`` of its slot [rad]."""
    data.mocap_pos[mocap] = (*np.asarray(mouth), 0.0)
    data.mocap_quat[mocap] = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))


def rack_yaw(data: mujoco.MjData, mocap: int) -> float:
    """Return the direction into the slot, as an angle from the x axis of the base [rad]."""
    quaternion = data.mocap_quat[mocap]
    return 2.0 * math.atan2(float(quaternion[3]), float(quaternion[0]))


def in_slot(data: mujoco.MjData, mocap: int, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the position of a point (3,) of the base frame in a slot: depth, aside, height above its floor [m]."""
    x, y, z = point - data.mocap_pos[mocap]
    yaw = rack_yaw(data, mocap)
    cosine, sine = math.cos(yaw), math.sin(yaw)
    return np.array([cosine * x + sine * y, cosine * y - sine * x, z - FLOOR_HEIGHT])
