"""The simulated arm as a predictor of joint positions from commands, with dynamics that can be changed quickly."""

import math
from dataclasses import dataclass, replace

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import generator

from .. import native
from ..arm_model import ArmModel
from ..config import ArmDynamics, RandomisationConfig, TaskConfig
from ..dynamics import PAYLOAD, PAYLOAD_RADIUS, SMALLEST
from ..joint_controller import JointController
from ..native import NativePredictor
from ..simulation import ArmSimulation

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Recording:
    """Commands and measurements of one episode of T control periods.

    Attributes:
        positions: measured joint positions (T + 1, n) [rad or m].
        velocities: measured joint velocities (T + 1, n) [rad/s or m/s].
        actions: executed actions (T, A).
        measured: times (T + 1,) of the measurements [s].
        commanded: times (T,) of the commands, by the same clock [s].
    """

    positions: Array
    velocities: Array
    actions: NDArray[np.float32]
    measured: Array
    commanded: Array

    @property
    def age(self) -> float:
        """Median time from a measurement to the command that follows it [s]."""
        return float(np.median(self.commanded - self.measured[:-1]))


@dataclass(frozen=True)
class Stretch:
    """A part of a recording, and the motion of the controller's reference that led to it, without delay.

    Attributes:
        positions: measured joint positions (T + 1, n) [rad or m].
        velocity: measured joint velocities (n,) at its beginning [rad/s or m/s].
        places: times (T + 1,) of the positions since its beginning [ticks].
        reference: reference of the controller (N, n) in each tick of the recording [rad or m].
        reference_velocity: its velocity (N, n) [rad/s or m/s].
        first: time at which the stretch begins [ticks].
    """

    positions: Array
    velocity: Array
    places: Array
    reference: Array
    reference_velocity: Array
    first: float = 0.0


class Predictor:
    """Open-loop prediction of joint positions by the physics of an arm without surroundings.

    Args:
        config: configuration of a task with joint actions. Its arm and controller are used.

    Attributes:
        tick: time between two controller ticks [s].
        nominal: the dynamics of ``config``, with every value that the model or the controller defines.
        joints: number n of joints.
        native: runs predictions in C++; None if they run in Python.
    """

    def __init__(self, config: TaskConfig) -> None:
        arm, given = config.arm, config.arm.dynamics
        count = self.joints = len(arm.joints)
        place = replace(
            given,
            payload=given.payload or SMALLEST,
            gravity=given.gravity or SMALLEST,
            torque_offset=given.torque_offset or (0.0,) * count,
        )
        arm = replace(arm, dynamics=place, home_noise=0.0)
        unvaried = replace(config, arm=arm, randomisation=RandomisationConfig())
        self._simulation = ArmSimulation(unvaried, lambda scene: None)
        self.tick = 1.0 / config.controller.rate
        model, data = self._simulation.model, self._simulation.data
        self._simulation.place(lambda *_: None, generator(0), generator(0))
        self._start, self._controls = data.qpos.copy(), data.ctrl.copy()
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_SENSOR)
        joints = [model.joint(name) for name in arm.joints]
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        self._motors = np.array([model.actuator(f"torque_{name}").id for name in arm.joints])
        self._payload = model.body(PAYLOAD).id
        self._limits = np.array(arm.torque_limits)
        indices = {"positions": self._qpos, "dofs": self._dofs, "motors": self._motors}
        self.native = NativePredictor(model, data, indices, self._limits) if native.available()[0] else None
        self.nominal = replace(
            given,
            stiffness=given.stiffness or (config.controller.joint_stiffness,) * count,
            damping=given.damping or (config.controller.joint_damping,) * count,
            friction=tuple(model.dof_frictionloss[self._dofs].tolist()),
            viscosity=tuple(model.dof_damping[self._dofs].tolist()),
            armature=tuple(model.dof_armature[self._dofs].tolist()),
            torque_offset=place.torque_offset,
        )

    def inertia(self) -> Array:
        """Return the diagonal (n,) of the arm's inertia at home, without armature [kg m^2 or kg]."""
        model, data = self._simulation.model, self._simulation.data
        full = np.empty((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        inertia: Array = np.diag(full)[self._dofs] - model.dof_armature[self._dofs]
        return np.maximum(inertia, 1e-6)

    def mass(self) -> float:
        """Return the mass of what the joints move [kg]."""
        model = self._simulation.model
        return float(model.body_subtreemass[model.jnt_bodyid[model.joint(self._simulation.config.arm.joints[0]).id]])

    def stretch(self, recording: Recording) -> Stretch:
        """Return a recording with the motion of the reference that its actions cause.

        A simulated arm is measured when it is commanded. Measurements of a recording count as later by their median
        age, which therefore becomes part of the delay; how their ages vary does not.
        """
        meaning, controller = ArmModel(self._simulation), self._simulation.controller
        assert isinstance(controller, JointController)
        meaning.begin(recording.positions[0])
        goals = [
            meaning.target(position, action).joints
            for position, action in zip(recording.positions, recording.actions, strict=False)
        ]
        meaning.begin(recording.positions[0])
        places = np.round((recording.measured - recording.measured[0]) / self.tick, 6)
        commands = (recording.commanded - recording.measured[0] - recording.age) / self.tick
        due = np.searchsorted(np.round(commands), np.arange(math.ceil(places[-1])), side="right")
        reference = np.empty((len(due), self.joints))
        velocity = np.empty_like(reference)
        for tick, count in enumerate(due):
            controller.goal[:] = goals[max(count - 1, 0)]
            reference[tick], velocity[tick] = controller.advance_reference()
        return Stretch(recording.positions, recording.velocities[0], places, reference, velocity)

    def windows(self, recording: Recording, length: int, every: int) -> list[Stretch]:
        """Return the stretches of ``length`` control periods that begin ``every`` control periods."""
        whole = self.stretch(recording)
        return [
            replace(
                whole,
                positions=recording.positions[begin : begin + length + 1],
                velocity=recording.velocities[begin],
                places=whole.places[begin : begin + length + 1] - whole.places[begin],
                first=float(whole.places[begin]),
            )
            for begin in range(every, len(recording.actions) - length + 1, every)
        ]

    def predict(self, dynamics: ArmDynamics, stretch: Stretch) -> Array:
        """Return the positions (T + 1, n) that follow from the measured state at the beginning of a stretch.

        Args:
            dynamics: dynamics with all values, as :attr:`nominal` has them.
            stretch: beginning and commands.
        """
        self._apply(dynamics)
        model, data = self._simulation.model, self._simulation.data
        qpos, dofs, motors, limits = self._qpos, self._dofs, self._motors, self._limits
        stiffness, damping = np.array(dynamics.stiffness), np.array(dynamics.damping)
        ticks = math.ceil(stretch.places[-1])
        places = stretch.first + np.arange(ticks, dtype=np.float64) - dynamics.delay / self.tick
        reference = _sampled(stretch.reference, places, stretch.reference[0])
        reference_velocity = _sampled(stretch.reference_velocity, places, np.zeros(self.joints))
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.ctrl[:] = self._start, self._controls
        data.qpos[qpos], data.qvel[dofs] = stretch.positions[0], stretch.velocity
        pull = stiffness * reference + damping * reference_velocity
        if self.native is not None:
            return _between(stretch, self.native.run(stiffness, damping, pull))
        predicted = np.empty((ticks, self.joints))
        for tick in range(ticks):
            mujoco.mj_step1(model, data)
            torque = pull[tick] - stiffness * data.qpos[qpos] - damping * data.qvel[dofs] + data.qfrc_bias[dofs]
            data.ctrl[motors] = np.minimum(np.maximum(torque, -limits), limits)
            mujoco.mj_step2(model, data)
            predicted[tick] = data.qpos[qpos]
        return _between(stretch, predicted)

    def _apply(self, dynamics: ArmDynamics) -> None:
        model, data = self._simulation.model, self._simulation.data
        model.dof_frictionloss[self._dofs] = dynamics.friction
        model.dof_damping[self._dofs] = dynamics.viscosity
        model.dof_armature[self._dofs] = dynamics.armature
        model.actuator_biasprm[self._motors, 0] = dynamics.torque_offset
        mass = dynamics.payload or SMALLEST
        model.body_mass[self._payload] = mass
        model.body_inertia[self._payload] = mass * PAYLOAD_RADIUS**2
        model.body_gravcomp[1 : self._payload] = -dynamics.gravity
        model.body_gravcomp[self._payload + 1 :] = -dynamics.gravity
        mujoco.mj_setConst(model, data)


def _between(stretch: Stretch, predicted: Array) -> Array:
    """Return positions (T + 1, n) at the times of a stretch, from those ``predicted`` (N, n) after each tick."""
    whole = np.vstack([stretch.positions[:1], predicted])
    lower = np.minimum(stretch.places.astype(int), len(predicted) - 1)
    share = (stretch.places - lower)[:, None]
    between: Array = (1 - share) * whole[lower] + share * whole[lower + 1]
    return between


def _sampled(values: Array, places: Array, before: Array) -> Array:
    """Return rows of ``values`` (N, n) at fractional ``places`` (m,); ``before`` (n,) at negative ones."""
    padded = np.vstack([before, values])
    place = np.clip(places + 1, 0, len(values))
    lower = np.minimum(place.astype(int), len(values) - 1)
    share = (place - lower)[:, None]
    sampled: Array = (1 - share) * padded[lower] + share * padded[lower + 1]
    return sampled
