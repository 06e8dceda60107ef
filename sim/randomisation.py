"""Domain randomisation: changes to the physical and visual model, drawn again for each episode."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from .config import ArmConfig, RandomisationConfig
from .dynamics import PAYLOAD

Array = NDArray[np.float64]


class ModelRandomiser:
    """The randomised parts of a model, drawn again for each episode from the nominal values.

    Args:
        model: compiled model, whose current values are the nominal ones.
        arm: the arm in it.
        config: which values are randomised, and how much.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmConfig, config: RandomisationConfig) -> None:
        self._model = model
        self._config = config
        self._nominal = {name: getattr(model, name).copy() for name in FIELDS}
        self._nominal_ambient = np.array(model.vis.headlight.ambient)
        free = model.jnt_bodyid[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
        self._free_bodies = np.unique(free)
        self._dofs = np.array([model.joint(name).dofadr[0] for name in arm.joints])
        self._payload = [model.body(PAYLOAD).id] if arm.dynamics.payload else []

    def apply(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw and write new values. ``data`` is used as scratch memory: reset it afterwards."""
        model, config, nominal = self._model, self._config, self._nominal
        if config.mass > 0:
            factors = rng.uniform(1 - config.mass, 1 + config.mass, self._free_bodies.size)
            model.body_mass[self._free_bodies] = nominal["body_mass"][self._free_bodies] * factors
            model.body_inertia[self._free_bodies] = nominal["body_inertia"][self._free_bodies] * factors[:, None]
            mujoco.mj_setConst(model, data)
        if config.dynamics > 0:
            self._change_arm(data, rng)
        if config.friction > 0:
            model.geom_friction[:] = nominal["geom_friction"] * rng.uniform(1 - config.friction, 1 + config.friction)
        if config.lighting > 0:
            self._light(rng)
        if config.camera_position > 0:
            offset = rng.uniform(-config.camera_position, config.camera_position, (model.ncam, 3))
            model.cam_pos[:] = nominal["cam_pos"] + offset
        if config.camera_rotation > 0:
            for index in range(model.ncam):
                self._turn_camera(index, rng)

    def _change_arm(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        model, nominal, spread = self._model, self._nominal, self._config.dynamics
        changed = dict.fromkeys(JOINT_FIELDS, self._dofs) | {"body_mass": self._payload}
        for name, places in changed.items():
            factors = rng.uniform(1 - spread, 1 + spread, len(places))
            getattr(model, name)[places] = nominal[name][places] * factors
        mujoco.mj_setConst(model, data)

    def _light(self, rng: np.random.Generator) -> None:
        model, nominal, strength = self._model, self._nominal, self._config.lighting
        brightness = rng.uniform(1 - strength, 1 + strength, (model.nlight, 1))
        model.light_diffuse[:] = nominal["light_diffuse"] * brightness
        model.light_specular[:] = nominal["light_specular"] * brightness
        model.vis.headlight.ambient[:] = self._nominal_ambient * rng.uniform(1 - strength, 1 + strength)
        # A directional light shines from its position towards the middle of the scene, so moving it turns it.
        offset = rng.uniform(-strength, strength, (model.nlight, 3))
        model.light_pos[:] = nominal["light_pos"] + offset
        direction = nominal["light_dir"] * np.linalg.norm(nominal["light_pos"], axis=1, keepdims=True) - offset
        model.light_dir[:] = direction / np.linalg.norm(direction, axis=1, keepdims=True)

    def _turn_camera(self, index: int, rng: np.random.Generator) -> None:
        axis = rng.normal(size=3)
        turn = np.empty(4)
        angle = rng.uniform(0, self._config.camera_rotation)
        mujoco.mju_axisAngle2Quat(turn, axis / np.linalg.norm(axis), angle)
        mujoco.mju_mulQuat(self._model.cam_quat[index], self._nominal["cam_quat"][index], turn)


JOINT_FIELDS = ("dof_damping", "dof_frictionloss", "dof_armature")
FIELDS = (
    *JOINT_FIELDS,
    *("body_mass", "body_inertia", "geom_friction", "light_diffuse", "light_specular"),
    *("light_pos", "light_dir", "cam_pos", "cam_quat"),
)
