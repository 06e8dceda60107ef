"""A square peg and a block with a square hole, for MjSpec.

Frame of the block ("hole" body): origin on the table below the middle of the hole, z up, x and y along the hole's
walls. Frame of the peg ("peg" body): origin in its middle, z along it; the tip is at z = -PEG_LENGTH / 2. [m].
"""

import mujoco
import numpy as np

PEG_BODY = "peg"
TIP_SITE = "peg_tip"
BLOCK_BODY = "hole"

PEG_WIDTH = 0.020
PEG_LENGTH = 0.080
PEG_MASS = 0.25  # steel
HOLE_DEPTH = 0.040  # height of the block: the hole goes through to the table
BLOCK_WIDTH = 0.100

GRIP_FRICTION = 1.5  # rubber on steel

PEG_COLOUR = (0.93, 0.45, 0.10, 1.0)
BLOCK_COLOUR = (0.30, 0.46, 0.63, 1.0)
HOLE_COLOUR = (0.06, 0.07, 0.09, 1.0)

# Contacts. With a clearance of half a millimetre the block must not give by more than some hundredths of one, nor may
# the peg creep in the fingers; two time steps (of 2 ms) are the shortest time constant. By priority the block's
# parameters count before the peg's, and the peg's before the fingers'.
_BLOCK = {"priority": 3, "condim": 4, "solref": [0.004, 1.0], "solimp": [0.98, 0.999, 0.0005, 0.5, 2.0]}
_GRIP = {"priority": 2, "condim": 4, "solref": [0.005, 1.0], "solimp": [0.97, 0.995, 0.0005, 0.5, 2.0]}


def add_peg(spec: mujoco.MjSpec) -> None:
    """Add a free peg, its free joint named like its body."""
    peg = spec.worldbody.add_body(name=PEG_BODY)
    peg.add_freejoint(name=PEG_BODY)
    half = PEG_WIDTH / 2
    peg.add_geom(
        name=PEG_BODY, type=mujoco.mjtGeom.mjGEOM_BOX, size=[half, half, PEG_LENGTH / 2], mass=PEG_MASS,
        rgba=PEG_COLOUR, friction=[GRIP_FRICTION, 0.01, 0.0001], **_GRIP,
    )  # fmt: skip
    peg.add_site(name=TIP_SITE, pos=[0, 0, -PEG_LENGTH / 2], size=[0.002, 0, 0], group=4)


def add_block(spec: mujoco.MjSpec, clearance: float, friction: float) -> None:
    """Add a block with a hole that is ``clearance`` [m] wider than the peg: half of it on each side.

    The block is a mocap body, fixed to the table: place it by ``data.mocap_pos`` and ``data.mocap_quat``. Its contacts
    have the sliding friction ``friction``, whatever they are with.
    """
    block = spec.worldbody.add_body(name=BLOCK_BODY, mocap=True)
    inner, outer, half_height = (PEG_WIDTH + clearance) / 2, BLOCK_WIDTH / 2, HOLE_DEPTH / 2
    middle, half_wall = (inner + outer) / 2, (outer - inner) / 2
    walls = {
        "front": ([-middle, 0.0], [half_wall, outer]),
        "back": ([middle, 0.0], [half_wall, outer]),
        "right": ([0.0, -middle], [inner, half_wall]),
        "left": ([0.0, middle], [inner, half_wall]),
    }
    for name, (position, half_size) in walls.items():
        block.add_geom(
            name=f"hole_{name}", type=mujoco.mjtGeom.mjGEOM_BOX, pos=[*position, half_height],
            size=[*half_size, half_height], rgba=BLOCK_COLOUR, friction=[friction, 0.005, 0.0001], **_BLOCK,
        )  # fmt: skip
    # Visible bottom of the hole and rim of its mouth, without contacts.
    visual = {"type": mujoco.mjtGeom.mjGEOM_BOX, "contype": 0, "conaffinity": 0}
    block.add_geom(pos=[0, 0, 0.001], size=[inner, inner, 0.001], rgba=HOLE_COLOUR, **visual)
    for angle in np.arange(4) * np.pi / 2:
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        half_size = np.abs(along) * 0.0015 + np.abs(across) * (inner + 0.003)
        block.add_geom(
            pos=[*(along * (inner + 0.0015)), HOLE_DEPTH], size=[*half_size, 0.0003], rgba=HOLE_COLOUR, **visual
        )
