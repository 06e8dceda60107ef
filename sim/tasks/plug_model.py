"""A rectangular plug and a socket with a chamfered mouth, for MjSpec.

Frame of the socket: origin in the middle of its mouth, z up and out of the socket, x and y along its walls. Frame of
the plug: origin in the middle of its handle, z along the handle, the tip of the tongue at z = -TIP [m].
"""

import math
from typing import Any

import mujoco

PLUG_BODY = "plug"
TIP_SITE = "plug_tip"
SOCKET_BODY = "socket"
ESTIMATE_BODY = "socket_estimate"

HANDLE_SIZE = (0.024, 0.020, 0.040)
TONGUE_SIZE = (0.020, 0.010, 0.018)
TIP = HANDLE_SIZE[2] / 2 + TONGUE_SIZE[2]
PLUG_MASS = 0.05
SOCKET_DEPTH = 0.015
CHAMFER = 0.0012
"""Width and height of the slope around the mouth, which is at 45 degrees [m]."""
BLOCK_WIDTH = 0.080
BLOCK_HEIGHT = 0.060
"""Height, larger than that of the mouth: the rest is inside the table [m]."""

GRIP_FRICTION = 1.5  # rubber on plastic
SOCKET_FRICTION = 0.2

HANDLE_COLOUR = (0.78, 0.30, 0.22, 1.0)
TONGUE_COLOUR = (0.90, 0.72, 0.25, 1.0)
BLOCK_COLOUR = (0.30, 0.46, 0.63, 1.0)
SLOPE_COLOUR = (0.62, 0.74, 0.86, 1.0)
HOLE_COLOUR = (0.06, 0.07, 0.09, 1.0)

# Contacts. The clearance is a few tenths of a millimetre, so contacts with the socket may yield by hundredths only. Two
# time steps, of 1 ms here, are the shortest time constant. By priority, the socket's parameters apply to contacts with
# the plug, and the plug's to contacts with the fingers.
_SOCKET = {"priority": 3, "condim": 4, "solref": [0.002, 1.0], "solimp": [0.98, 0.999, 0.0002, 0.5, 2.0]}
_GRIP = {"priority": 2, "condim": 4, "solref": [0.004, 1.0], "solimp": [0.99, 0.998, 0.0005, 0.5, 2.0]}
_BOX = mujoco.mjtGeom.mjGEOM_BOX


def add_plug(spec: mujoco.MjSpec) -> None:
    """Add a free plug, whose free joint has the name of its body: a handle, and a tongue that fits into the socket."""
    plug = spec.worldbody.add_body(name=PLUG_BODY)
    plug.add_freejoint(name=PLUG_BODY)
    grip = {"friction": [GRIP_FRICTION, 0.01, 0.0001], **_GRIP}
    for name, size, height, share, colour in (
        ("plug_handle", HANDLE_SIZE, 0.0, 0.8, HANDLE_COLOUR),
        ("plug_tongue", TONGUE_SIZE, TONGUE_SIZE[2] / 2 - TIP, 0.2, TONGUE_COLOUR),
    ):
        half = [edge / 2 for edge in size]
        plug.add_geom(name=name, type=_BOX, pos=[0, 0, height], size=half, mass=share * PLUG_MASS, rgba=colour, **grip)
    plug.add_site(name=TIP_SITE, pos=[0, 0, -TIP], size=[0.002, 0, 0], group=4)


def add_socket(spec: mujoco.MjSpec, clearance: float) -> None:
    """Add a socket that is ``clearance`` [m] wider than the tongue in x and y, and the estimate of its pose.

    Both are mocap bodies: place them by ``data.mocap_pos`` and ``data.mocap_quat``. The estimate is a frame without
    collisions that no camera sees.
    """
    socket = spec.worldbody.add_body(name=SOCKET_BODY, mocap=True)
    contact: dict[str, Any] = {"friction": [SOCKET_FRICTION, 0.005, 0.0001], **_SOCKET}
    outer = BLOCK_WIDTH / 2
    inner = [(edge + clearance) / 2 for edge in TONGUE_SIZE[:2]]

    def add_box(name: str, low: list[float], high: list[float], rgba: tuple[float, ...]) -> None:
        position = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        half = [(b - a) / 2 for a, b in zip(low, high, strict=True)]
        socket.add_geom(name=name, type=_BOX, pos=position, size=half, rgba=rgba, **contact)

    bottom = -SOCKET_DEPTH
    add_box("socket_floor", [-inner[0], -inner[1], -BLOCK_HEIGHT], [*inner, bottom], HOLE_COLOUR)
    # The walls below the chamfer, and around it.
    for part, low, high, wider in (("wall", -BLOCK_HEIGHT, -CHAMFER, 0.0), ("rim", -CHAMFER, 0.0, CHAMFER)):
        x, y = inner[0] + wider, inner[1] + wider
        walls = {
            "front": ([-outer, -outer, low], [-x, outer, high]),
            "back": ([x, -outer, low], [outer, outer, high]),
            "right": ([-x, -outer, low], [x, -y, high]),
            "left": ([-x, y, low], [x, outer, high]),
        }
        for name, corners in walls.items():
            add_box(f"socket_{part}_{name}", *corners, BLOCK_COLOUR)
    # The slopes: boxes turned by 45 degrees, of which all but the upper face is inside the walls.
    length, thickness = CHAMFER / math.sqrt(2), 0.001
    for name, axis, sign in (("front", 0, -1), ("back", 0, 1), ("right", 1, -1), ("left", 1, 1)):
        middle = [0.0, 0.0, -CHAMFER / 2 - thickness / math.sqrt(2)]
        middle[axis] = sign * (inner[axis] + CHAMFER / 2 + thickness / math.sqrt(2))
        size = [0.0, 0.0, thickness]
        size[axis], size[1 - axis] = length, inner[1 - axis] + CHAMFER
        turn = [math.cos(math.pi / 8), 0.0, 0.0, 0.0]
        turn[2 - axis] = (-1 if axis == 0 else 1) * sign * math.sin(math.pi / 8)
        socket.add_geom(
            name=f"socket_slope_{name}", type=_BOX, pos=middle, quat=turn, size=size, rgba=SLOPE_COLOUR, **contact
        )
    estimate = spec.worldbody.add_body(name=ESTIMATE_BODY, mocap=True)
    estimate.add_site(name=ESTIMATE_BODY, size=[0.002, 0, 0], group=4)
