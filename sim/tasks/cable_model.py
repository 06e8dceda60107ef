"""A flexible cable, and a clip that it is laid into, for MjSpec.

The cable is a chain of capsules, connected by ball joints with bending stiffness and damping: it bends and twists, and
does not stretch. It starts at an anchor on the table and ends in a tab, a box that a gripper can hold.

Frame of each segment: origin at its joint, x along the cable. Frame of the tab: origin at its joint, x along the cable
away from it. Frame of a clip: origin on the table below the middle of the channel, x along the channel, z up.
[m], [kg], [rad].
"""

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SEGMENTS = 14
SEGMENT_LENGTH = 0.03
LENGTH = SEGMENTS * SEGMENT_LENGTH
RADIUS = 0.0045
LINE_DENSITY = 0.12
"""Mass per length [kg/m]."""
BENDING_STIFFNESS = 0.05
"""Stiffness of each joint [Nm/rad]. Times SEGMENT_LENGTH it is the cable's EI: 0.0015 Nm^2, a thick, supple cord."""
BENDING_DAMPING = 0.004
"""Damping of each joint [Nms/rad]."""
ARMATURE = 8e-6
"""Added inertia of each joint [kg m^2]: a segment alone is too light for its spring to be stable at this time step."""

ANCHOR_BODY = "cable_anchor"
ANCHOR_HEIGHT = 0.035
"""Height of the cable's fixed end above the table [m]."""
TAB_BODY = "cable_tab"
TAB_LENGTH = 0.026
TAB_WIDTH = 0.024
TAB_HEIGHT = 0.024
TAB_MASS = 0.04
TAB_FRICTION = 2.0
"""Friction of rubber on rubber."""
COLLAR = 0.006
"""Thickness of the collar at the tab's end, and by how much it protrudes: the fingers cannot slip over it [m]."""

CHANNEL_WIDTH = 0.022
CHANNEL_LENGTH = 0.018
CHANNEL_FLOOR = 0.003
RIM_HEIGHT = 0.018
"""Height of the channel's upright walls above the table: below it the cable is in the clip [m]."""
WALL = 0.0035
FLARE_LENGTH = 0.012
FLARE_ANGLE = 0.8
"""Angle by which the lead-in on top of each wall leans outwards from the vertical [rad]."""
CLIP_TOP = RIM_HEIGHT + FLARE_LENGTH * math.cos(FLARE_ANGLE)
"""Height of the lead-ins' upper edges above the table [m]."""

CABLE_COLOUR = (0.93, 0.45, 0.10, 1.0)
TAB_COLOUR = (0.16, 0.17, 0.19, 1.0)
ANCHOR_COLOUR = (0.30, 0.32, 0.36, 1.0)
CLIP_COLOUR = (0.12, 0.42, 0.78, 1.0)

BOX, CAPSULE = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE

# The cable collides with table and clips, but neither with itself nor with the arm, and slides without friction (by its
# priority): an elliptic friction cone couples all its joints, and with about twenty of them a step would take four
# times as long.
_CABLE = {"contype": 1, "conaffinity": 0, "condim": 1, "priority": 3, "rgba": CABLE_COLOUR}
# Stiff contacts: a light tab would sink millimetres into the pads.
_TAB = {
    "condim": 4, "priority": 2, "friction": (TAB_FRICTION, 0.01, 0.0001),
    "solref": (0.005, 1.0), "solimp": (0.95, 0.99, 0.001, 0.5, 2.0),
}  # fmt: skip


def joint_names() -> tuple[str, ...]:
    """Return the names of the ball joints, and of the bodies that they move, from the anchor to the tab."""
    return (*(f"cable{number}" for number in range(SEGMENTS)), TAB_BODY)


def add_cable(spec: mujoco.MjSpec, anchor: tuple[float, float], yaw: float) -> None:
    """Add a cable that leaves an anchor on the table at ``anchor`` (x, y) [m] horizontally, at ``yaw`` [rad].

    The cable is straight without load.
    """
    body = spec.worldbody.add_body(
        name=ANCHOR_BODY, pos=(*anchor, ANCHOR_HEIGHT), quat=(math.cos(yaw / 2), 0, 0, math.sin(yaw / 2))
    )
    half = ANCHOR_HEIGHT / 2 + RADIUS
    body.add_geom(
        type=BOX, pos=(-0.02, 0, half - ANCHOR_HEIGHT), size=(0.02, 0.025, half), rgba=ANCHOR_COLOUR,
        contype=0, conaffinity=0,
    )  # fmt: skip
    *segments, tab = joint_names()
    place = 0.0
    for name in segments:
        body = _add_link(body, name, place)
        body.add_geom(
            type=CAPSULE, fromto=(0, 0, 0, SEGMENT_LENGTH, 0, 0), size=(RADIUS, 0, 0),
            mass=LINE_DENSITY * SEGMENT_LENGTH, **_CABLE,
        )  # fmt: skip
        place = SEGMENT_LENGTH
    body = _add_link(body, tab, place)
    half_width, half_height = TAB_WIDTH / 2, TAB_HEIGHT / 2
    body.add_geom(
        type=BOX, pos=(TAB_LENGTH / 2, 0, 0), size=(TAB_LENGTH / 2, half_width, half_height), mass=TAB_MASS,
        rgba=TAB_COLOUR, **_TAB,
    )  # fmt: skip
    body.add_geom(
        type=BOX, pos=(TAB_LENGTH + COLLAR / 2, 0, 0), size=(COLLAR / 2, half_width + COLLAR, half_height), mass=0.0,
        rgba=CABLE_COLOUR, **_TAB,
    )  # fmt: skip


def _add_link(parent: Any, name: str, place: float) -> Any:
    body = parent.add_body(name=name, pos=(place, 0, 0))
    body.add_joint(
        name=name, type=mujoco.mjtJoint.mjJNT_BALL, stiffness=BENDING_STIFFNESS, damping=BENDING_DAMPING,
        armature=ARMATURE,
    )  # fmt: skip
    return body


def add_clip(spec: mujoco.MjSpec, name: str) -> None:
    """Add an open-topped channel as mocap body ``name``: place it by ``data.mocap_pos`` and ``data.mocap_quat``."""
    clip = spec.worldbody.add_body(name=name, mocap=True)
    half_length, half_width = CHANNEL_LENGTH / 2, CHANNEL_WIDTH / 2
    foot = half_width + WALL + 0.008
    clip.add_geom(
        type=BOX, pos=(0, 0, CHANNEL_FLOOR / 2), size=(half_length, foot, CHANNEL_FLOOR / 2), rgba=CLIP_COLOUR
    )
    cosine, sine = math.cos(FLARE_ANGLE), math.sin(FLARE_ANGLE)
    # From the rim, half the flare upwards along its inner face, and half a wall into it.
    flare_y = half_width + sine * FLARE_LENGTH / 2 + cosine * WALL / 2
    flare_z = RIM_HEIGHT + cosine * FLARE_LENGTH / 2 - sine * WALL / 2
    for side in (-1, 1):
        clip.add_geom(
            type=BOX, pos=(0, side * (half_width + WALL / 2), RIM_HEIGHT / 2),
            size=(half_length, WALL / 2, RIM_HEIGHT / 2), rgba=CLIP_COLOUR,
        )  # fmt: skip
        clip.add_geom(
            type=BOX, pos=(0, side * flare_y, flare_z), size=(half_length, WALL / 2, FLARE_LENGTH / 2),
            quat=(math.cos(FLARE_ANGLE / 2), -side * math.sin(FLARE_ANGLE / 2), 0, 0), rgba=CLIP_COLOUR,
        )  # fmt: skip


class CableState:
    """The cable and its clips in a compiled model, read from the physics.

    Attributes:
        clips: indices of the clips in ``data.mocap_pos``.
    """

    def __init__(self, model: mujoco.MjModel, clips: Sequence[str]) -> None:
        self.clips = [int(model.body(name).mocapid[0]) for name in clips]
        self._joints = np.array([model.body(name).id for name in joint_names()])

    def points(self, data: mujoco.MjData) -> Array:
        """Return the cable's joints (SEGMENTS + 1, 3) from the anchor to the tab, in the base frame [m]."""
        points: Array = data.xpos[self._joints]
        return points

    def foot(self, data: mujoco.MjData, number: int) -> Array:
        """Return the origin (3,) of clip ``number`` [m]."""
        foot: Array = data.mocap_pos[self.clips[number]]
        return foot

    def clip_yaw(self, data: mujoco.MjData, number: int) -> float:
        """Return the angle of the channel of clip ``number`` from the direction of y, about the vertical [rad]."""
        quaternion = data.mocap_quat[self.clips[number]]
        return 2.0 * math.atan2(float(quaternion[3]), float(quaternion[0])) - math.pi / 2

    def laid(self, data: mujoco.MjData, number: int) -> bool:
        """Return whether the cable passes through clip ``number`` below its rims."""
        return in_channel(self._in_clip(data, number))

    def passage(self, data: mujoco.MjData, number: int) -> Array:
        """Return where the cable passes clip ``number``: (2,) sideways and up from its foot, in its frame [m]."""
        return passage(self._in_clip(data, number))[1:]

    def _in_clip(self, data: mujoco.MjData, number: int) -> Array:
        """Return the cable's joints (SEGMENTS + 1, 3) in the frame of a clip [m]."""
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, data.mocap_quat[self.clips[number]])
        points: Array = (self.points(data) - self.foot(data, number)) @ rotation.reshape(3, 3)
        return points


def hanging_frames(start: Array, end: Array) -> list[Array]:
    """Return rotations (3, 3) of the segments of a cable that hangs from ``start`` to ``end`` (3,) [m].

    The joints lie on a circle in the vertical plane through both points, so that each segment turns by the same angle.
    The points must be less than ``LENGTH`` apart.
    """
    chord = end - start
    distance = float(np.linalg.norm(chord))
    low, high = 0.0, 2 * math.pi / SEGMENTS  # straight, and a closed polygon
    for _ in range(50):
        turn = (low + high) / 2
        span = SEGMENT_LENGTH * math.sin(SEGMENTS * turn / 2) / math.sin(turn / 2)
        low, high = (turn, high) if span > distance else (low, turn)
    along = frame_along(chord)
    angles = (np.arange(SEGMENTS) - (SEGMENTS - 1) / 2) * turn
    return [frame_along(along @ np.array([math.cos(angle), 0.0, math.sin(angle)])) for angle in angles]


def frame_along(direction: Array) -> Array:
    """Return the rotation (3, 3) whose x axis is along ``direction`` (3,) and whose y axis is horizontal."""
    x = direction / np.linalg.norm(direction)
    y = np.array([-x[1], x[0], 0.0]) / math.hypot(x[0], x[1])
    return np.stack([x, y, np.cross(x, y)], axis=1)


def in_channel(points: Array) -> bool:
    """Return whether the line through ``points`` (n, 3), in the frame of a clip [m], passes through the clip's channel.

    This is the case if it crosses the planes at both ends of the channel between the walls and below their rims.
    """
    return all(
        bool(((np.abs(cross[:, 1]) < CHANNEL_WIDTH / 2) & (cross[:, 2] < RIM_HEIGHT)).any())
        for cross in (crossings(points, -CHANNEL_LENGTH / 2), crossings(points, CHANNEL_LENGTH / 2))
    )


def passage(points: Array) -> Array:
    """Return the point (3,) at which the line through ``points`` (n, 3) passes a clip, in the clip's frame [m].

    It is the intersection of the line with the plane across the middle of the channel. If there are several, it is the
    one nearest to the channel; if there is none, it is the point of ``points`` nearest to the plane.
    """
    cross = crossings(points, 0.0)
    if len(cross) == 0:
        nearest: Array = points[np.argmin(np.abs(points[:, 0]))]
        return nearest
    nearest = cross[np.argmin(np.linalg.norm(cross - (0.0, 0.0, CHANNEL_FLOOR + RADIUS), axis=1))]
    return nearest


def crossings(points: Array, x: float) -> Array:
    """Return the points (k, 3) at which the line through ``points`` (n, 3) crosses the plane at ``x``."""
    beyond = points[:, 0] >= x
    before = np.flatnonzero(beyond[1:] != beyond[:-1])
    first, second = points[before], points[before + 1]
    share = (x - first[:, :1]) / (second[:, :1] - first[:, :1])
    between: Array = first + share * (second - first)
    return between
