"""The room around the arm: table, floor, light, cameras and the physics options."""

from typing import Any

import mujoco

from .arm import looking_at

TABLE_TOP = (0.55, 0.75, 0.02)
TABLE_CENTRE = (0.3, 0.0)
TABLE_HEIGHT = 0.75


def make_scene(arm: mujoco.MjSpec, timestep: float) -> mujoco.MjSpec:
    """Return the arm on a table (top at z = 0) in a room with lights and the cameras ``front`` and ``view``.

    Args:
        arm: spec of the arm with its base at the origin, changed in place.
        timestep: time step of the physics [s].
    """
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    arm.default.name = "arm"  # the defaults of the arm's file must not apply to the rest of the world
    spec.attach(arm, prefix="", frame=spec.worldbody.add_frame())
    set_physics(spec, timestep)
    spec.option.iterations = 30
    spec.option.ls_iterations = 50  # 20 are too few: the solver sometimes gives up, and throws what the hand holds
    _add_room(spec)
    _add_light(spec)

    front, target = (1.1, 0.0, 0.5), (0.45, 0.0, 0.06)
    spec.worldbody.add_camera(name="front", pos=front, fovy=45, **looking_at(front, target))
    view, target = (1.25, -0.95, 0.72), (0.32, 0.02, 0.2)
    spec.worldbody.add_camera(name="view", pos=view, fovy=42, **looking_at(view, target))
    return spec


def set_physics(spec: mujoco.MjSpec, timestep: float) -> None:
    """Set the physics options that all simulated robots share."""
    option = spec.option
    option.timestep = timestep
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10.0  # grasped objects do not creep out of the fingers, nor do tyres creep over the ground
    option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # the backend reports an unstable simulation


def _add_room(spec: mujoco.MjSpec) -> None:
    """Add floor, sky and table."""
    add_backdrop(spec, light=(0.42, 0.45, 0.49), dark=(0.36, 0.39, 0.43), texrepeat=(8, 8), texuniform=False)
    spec.add_material(name="table", rgba=(0.78, 0.70, 0.60, 1), specular=0.15, shininess=0.2)

    world = spec.worldbody
    world.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, pos=(0, 0, -TABLE_HEIGHT), size=(6, 6, 0.1), material="floor"
    )
    x, y = TABLE_CENTRE
    half_x, half_y, half_z = TABLE_TOP
    world.add_geom(name="table", type=mujoco.mjtGeom.mjGEOM_BOX, pos=(x, y, -half_z), size=TABLE_TOP, material="table")
    for sign_x in (-1, 1):
        for sign_y in (-1, 1):
            world.add_geom(
                type=mujoco.mjtGeom.mjGEOM_BOX, contype=0, conaffinity=0, rgba=(0.25, 0.26, 0.28, 1),
                pos=(x + sign_x * (half_x - 0.05), y + sign_y * (half_y - 0.05), -TABLE_HEIGHT / 2 - half_z),
                size=(0.025, 0.025, TABLE_HEIGHT / 2 - half_z),
            )  # fmt: skip


def add_backdrop(spec: mujoco.MjSpec, light: tuple[float, ...], dark: tuple[float, ...], **repeat: Any) -> None:
    """Add a sky, and the material ``floor``, a chequerboard of two colours."""
    spec.add_texture(
        name="floor", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=light, rgb2=dark, width=256, height=256,
    )  # fmt: skip
    spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=(0.80, 0.86, 0.92), rgb2=(0.45, 0.52, 0.60), width=64, height=384,
    )  # fmt: skip
    floor = spec.add_material(name="floor", specular=0.1, **repeat)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "floor"


def _add_light(spec: mujoco.MjSpec) -> None:
    spec.stat.extent = 1.1  # region of shadows, and scale of the near and far planes
    spec.stat.center = (0.35, 0.0, 0.2)
    spec.visual.headlight.ambient = (0.32, 0.32, 0.34)
    spec.visual.headlight.diffuse = (0.18, 0.18, 0.18)
    spec.visual.headlight.specular = (0, 0, 0)
    lamp = {"type": mujoco.mjtLightType.mjLIGHT_DIRECTIONAL}
    spec.worldbody.add_light(
        name="key", pos=(1.2, -1.2, 2.2), dir=(-0.5, 0.6, -1.5), diffuse=(0.55, 0.53, 0.50),
        specular=(0.25, 0.25, 0.25), castshadow=True, **lamp,
    )  # fmt: skip
    spec.worldbody.add_light(
        name="fill", pos=(0.8, 1.6, 1.8), dir=(-0.3, -1.0, -1.0), diffuse=(0.22, 0.23, 0.26),
        specular=(0, 0, 0), castshadow=False, **lamp,
    )  # fmt: skip


def add_keep_out(spec: mujoco.MjSpec, name: str, box: tuple[float, ...]) -> None:
    """Add a visible box without contacts. ``box`` is its centre and half sizes [m]."""
    spec.worldbody.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_BOX, pos=box[:3], size=box[3:], contype=0, conaffinity=0,
        rgba=(0.9, 0.2, 0.1, 0.15),
    )  # fmt: skip
