"""A door in a frame, with a lever handle and a latch, for MjSpec. The mechanism uses only joints and contacts.

The latch is a tongue on the inner end of the handle's spindle, behind the door. At rest it lies in front of a keeper
on the frame, so that the door cannot swing. Turning the lever down lifts the tongue over the keeper.

Frame of the door ("door" body): origin on the table below the middle of the closed panel's front face; x points away
from the robot, the way the door opens, y along the panel from the free edge to the hinge, z up. [m], [rad].
"""

from dataclasses import dataclass

import mujoco
import numpy as np

HINGE_JOINT = "door_hinge"
HANDLE_JOINT = "door_handle"
FRAME_BODY = "door_frame"
PRESS_SITE = "door_press"

# Panel.
WIDTH = 0.40
HEIGHT = 0.62
THICKNESS = 0.03
BOTTOM = 0.02  # the panel hangs above the sill
GAP = 0.004  # between the panel and the posts
POST = 0.035

# Handle and latch. The spindle is the handle's hinge axis.
SPINDLE_HEIGHT = 0.27
SPINDLE_TO_EDGE = 0.06
LEVER_LENGTH = 0.13
LEVER_RADIUS = 0.010
LEVER_STANDOFF = 0.055  # lever axis to the panel's front face
PRESS_DISTANCE = 0.10  # spindle to the point of the lever that is pressed
TONGUE_OVERLAP = 0.018  # the part of the tongue behind the post
TONGUE_HALF_HEIGHT = 0.006
TONGUE_THICKNESS = 0.010
KEEPER_HALF_HEIGHT = 0.015
KEEPER_INSET = 0.004  # the keeper begins at this distance beyond the panel's gap
LATCH_PLAY = 0.001
MAX_HANDLE_ANGLE = 0.8
MAX_HINGE_ANGLE = 1.2

WOOD = (0.84, 0.62, 0.40, 1.0)
MOULDING = (0.74, 0.52, 0.31, 1.0)
PAINT = (0.90, 0.90, 0.87, 1.0)
METAL = (0.25, 0.27, 0.30, 1.0)
BRASS = (0.85, 0.66, 0.22, 1.0)

# Stiff contacts: the latch has to resist the arm and give by only a fraction of a degree.
_STIFF = {"solref": [0.004, 1.0], "solimp": [0.95, 0.99, 0.001, 0.5, 2.0]}


@dataclass(frozen=True)
class DoorDynamics:
    """Springs and dampers of the two joints.

    Attributes:
        hinge_preload: torque of the closer on the closed door [N m].
        hinge_stiffness: further torque by angle of the door [N m/rad].
        hinge_damping: [N m s/rad].
        handle_preload: torque that holds the lever level [N m].
        handle_stiffness: further torque by angle of the lever [N m/rad].
        handle_damping: [N m s/rad].
    """

    hinge_preload: float = 0.4
    hinge_stiffness: float = 1.0
    hinge_damping: float = 0.8
    handle_preload: float = 0.2
    handle_stiffness: float = 0.8
    handle_damping: float = 0.05


def latch_angle() -> float:
    """Return the angle of the lever [rad] from which the tongue clears the keeper.

    The tongue's lower edge is lowest, over the keeper, at the keeper's inner end: at distance l from the spindle, its
    height is l tan(a) - h / cos(a).
    """
    reach = SPINDLE_TO_EDGE + GAP + KEEPER_INSET
    angles = np.linspace(0.0, MAX_HANDLE_ANGLE, 8001)
    clear = reach * np.tan(angles) - TONGUE_HALF_HEIGHT / np.cos(angles) > KEEPER_HALF_HEIGHT
    return float(angles[np.argmax(clear)])


def add_door(spec: mujoco.MjSpec, dynamics: DoorDynamics) -> None:
    """Add the door to the world of ``spec``. Its frame is a mocap body: place it by ``data.mocap_pos``."""
    frame = spec.worldbody.add_body(name=FRAME_BODY, mocap=True)
    _add_frame(frame)

    hinge_y = WIDTH / 2
    # The hinge axis runs along the panel's back edge, as on a real door, so that the panel turns clear of the post.
    door = frame.add_body(name="door", pos=[THICKNESS, hinge_y, BOTTOM])
    door.add_joint(
        name=HINGE_JOINT, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1], range=[0.0, MAX_HINGE_ANGLE],
        limited=mujoco.mjtLimited.mjLIMITED_TRUE, **_spring(dynamics.hinge_preload, dynamics.hinge_stiffness),
        damping=[dynamics.hinge_damping, 0, 0], armature=0.01, solref_limit=[0.01, 1.0],
    )  # fmt: skip
    _add_panel(door)
    handle = door.add_body(name="handle", pos=[-THICKNESS, SPINDLE_TO_EDGE - WIDTH, SPINDLE_HEIGHT - BOTTOM])
    handle.add_joint(
        name=HANDLE_JOINT, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[-1, 0, 0], range=[0.0, MAX_HANDLE_ANGLE],
        limited=mujoco.mjtLimited.mjLIMITED_TRUE, **_spring(dynamics.handle_preload, dynamics.handle_stiffness),
        damping=[dynamics.handle_damping, 0, 0], armature=0.001, solref_limit=[0.01, 1.0],
    )  # fmt: skip
    _add_handle(handle)


def _spring(preload: float, stiffness: float) -> dict[str, object]:
    """Return the joint attributes of a spring with torque ``preload`` at angle 0."""
    return {"stiffness": [stiffness, 0, 0], "springref": -preload / stiffness}


def _box(
    body: mujoco.MjsBody, low: list[float], high: list[float], rgba: tuple[float, ...], **attributes: object
) -> None:
    """Add a box given by two opposite corners."""
    lower, upper = np.array(low), np.array(high)
    body.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, pos=(lower + upper) / 2, size=(upper - lower) / 2, rgba=rgba, **attributes
    )


def _add_frame(frame: mujoco.MjsBody) -> None:
    inner, outer, top = WIDTH / 2 + GAP, WIDTH / 2 + GAP + POST, BOTTOM + HEIGHT + GAP
    _box(frame, [0, -outer, 0], [THICKNESS, -inner, top + POST], PAINT, name="door_post_latch")
    _box(frame, [0, inner, 0], [THICKNESS, outer, top + POST], PAINT, name="door_post_hinge")
    _box(frame, [0, -inner, top], [THICKNESS, inner, top + POST], PAINT, name="door_lintel")
    _box(frame, [0, -inner, 0], [THICKNESS, inner, BOTTOM - GAP], PAINT, name="door_sill")

    near = THICKNESS + LATCH_PLAY + TONGUE_THICKNESS + LATCH_PLAY
    low_z, high_z = SPINDLE_HEIGHT - KEEPER_HALF_HEIGHT, SPINDLE_HEIGHT + KEEPER_HALF_HEIGHT
    _box(
        frame, [near, -outer, low_z], [near + 0.012, -inner - KEEPER_INSET, high_z], BRASS, name="door_keeper",
        condim=1, **_STIFF,
    )  # fmt: skip
    # The bracket that carries the keeper, beyond the tongue's end.
    _box(
        frame, [THICKNESS, -outer, low_z], [near, -inner - TONGUE_OVERLAP - 0.003, high_z], BRASS,
        name="door_keeper_bracket", contype=0, conaffinity=0,
    )  # fmt: skip


def _add_panel(door: mujoco.MjsBody) -> None:
    """Add the panel in the hinge's frame: x from -THICKNESS to 0, y from -WIDTH to 0, z from 0 to HEIGHT."""
    _box(door, [-THICKNESS, -WIDTH, 0], [0, 0, HEIGHT], WOOD, name="door_panel", density=500.0)
    visual = {"contype": 0, "conaffinity": 0, "mass": 0.0}
    for bottom, top in ((0.05, 0.18), (0.33, HEIGHT - 0.05)):
        _box(door, [-THICKNESS - 0.002, -WIDTH + 0.12, bottom], [0.002, -0.05, top], MOULDING, **visual)
    for z in (0.06, HEIGHT - 0.06):
        door.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER, pos=[0.004, 0.002, z], size=[0.006, 0.025, 0], rgba=METAL, **visual
        )


def _add_handle(handle: mujoco.MjsBody) -> None:
    """Add the handle in the spindle's frame: origin where the spindle leaves the panel's front face."""
    capsule = mujoco.mjtGeom.mjGEOM_CAPSULE
    x = -LEVER_STANDOFF
    handle.add_geom(
        name="door_lever",
        type=capsule,
        fromto=[x, 0, 0, x, LEVER_LENGTH, 0],
        size=[LEVER_RADIUS, 0, 0],
        rgba=METAL,
        mass=0.15,
        priority=2,  # its parameters apply, not the fingers'
        **_STIFF,
    )
    handle.add_geom(
        name="door_neck", type=capsule, fromto=[x, 0, 0, 0, 0, 0], size=[LEVER_RADIUS, 0, 0], rgba=METAL, mass=0.05
    )
    handle.add_geom(
        type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[-0.006, 0, 0, 0, 0, 0], size=[0.024, 0, 0], rgba=METAL,
        mass=0.0, contype=0, conaffinity=0,
    )  # fmt: skip
    near = THICKNESS + LATCH_PLAY
    _box(
        handle, [near, -(SPINDLE_TO_EDGE + GAP + TONGUE_OVERLAP), -TONGUE_HALF_HEIGHT],
        [near + TONGUE_THICKNESS, 0.01, TONGUE_HALF_HEIGHT], BRASS, name="door_tongue", mass=0.08, condim=1,
        **_STIFF,
    )  # fmt: skip
    handle.add_site(name=PRESS_SITE, pos=[x, PRESS_DISTANCE, 0], size=[0.004, 0, 0], group=4)
