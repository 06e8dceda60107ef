"""A simulated arm that runs continuously, as a robot does, and follows targets."""

from collections import deque
from dataclasses import replace
from functools import partial

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmTarget, ConfigError, DriverError, FrameTransform

from .controller import EndEffectorController
from .episode import SimulatedBackend
from .frames import ArmFrames
from .joint_controller import JointController
from .observation import endless
from .simulation import ArmSimulation
from .ticking import TickingRobot

Array = NDArray[np.float64]


class SimulatedRobot(TickingRobot):
    """The robot's side of an :class:`~robo_rl.sim.backend.ArmBackend`, whose physics and controller it uses.

    Args:
        backend: simulated arm in its task. Nothing else may step it in the meantime.
        simulation: simulation of that backend.

    Attributes:
        joints: names of the arm's joints.
        fingers: names of the gripper's joints; empty without a gripper.
        finger_strokes: closed and open position (k, 2) of each finger joint [m or rad].
        endless: which joints (n,) turn without limits.
        limits: lowest and highest position (n, 2) of each joint [rad or m].
        torques: largest torque (n,) of each joint [Nm or N].
        takes: kind of target that the controller accepts: ``pose`` or ``joints``.
        tick: time between two controller ticks [s].
    """

    def __init__(self, backend: SimulatedBackend, simulation: ArmSimulation) -> None:
        config, model = simulation.config, simulation.model
        super().__init__(backend)
        self._simulation = simulation
        self.joints = tuple(config.arm.joints)
        self.fingers = tuple(config.arm.gripper_joints) if config.arm.gripper_actuator is not None else ()
        self.finger_strokes = simulation.arm.finger_strokes
        self.endless = endless(model, self.joints)
        self.limits = np.array([model.joint(name).range for name in self.joints])
        self.torques = np.array(config.arm.torque_limits)
        self.takes = "pose" if isinstance(simulation.controller, EndEffectorController) else "joints"
        self.tick = 1.0 / config.controller.rate
        self._dofs = np.array([model.joint(name).dofadr[0] for name in self.joints])
        self._fingers = np.array([model.joint(name).qposadr[0] for name in self.fingers], dtype=int)
        self._filtered = config.ticks
        self._frames = ArmFrames(model, config.arm, self.cameras)
        self._readings: deque[tuple[int, Array]] = (
            deque()
        )  # newest last: number of ticks, and the mean reading of the wrist during them

    def reset(self, seed: int) -> None:
        """Begin an episode as :meth:`ArmBackend.reset` does. The arm holds its pose."""
        self._backend.reset(seed)
        self._readings.clear()

    def advance(self, ticks: int) -> None:
        """Let ``ticks`` controller ticks of time pass.

        Raises:
            DriverError: if the simulation became unstable.
        """
        simulation = self._simulation
        simulation.advance(ticks)
        wrist, addresses = simulation.data.sensordata, simulation.arm.wrench_addresses
        self._readings.append((ticks, wrist[addresses].copy()))
        while sum(count for count, _ in self._readings) - self._readings[0][0] >= self._filtered:
            self._readings.popleft()
        counts = np.array([count for count, _ in self._readings], np.float64)
        # The mean over a control period, as in a step.
        wrist[addresses] = counts @ np.array([reading for _, reading in self._readings]) / counts.sum()
        if not np.isfinite(simulation.data.qpos).all():
            raise DriverError("the simulation became unstable; more task.controller.damping or a higher rate helps")
        self._backend.task.follow(simulation.data)

    def hold(self) -> None:
        """Hold the measured pose from now on. Openings of the gripper that are on their way still arrive."""
        self._simulation.forget(motion_alone=True)
        self._simulation.controller.hold(self._simulation.data)

    def command(self, target: ArmTarget) -> None:
        """Follow ``target`` once the delay of the arm's commands is over.

        Raises:
            ConfigError: if the controller takes another kind of target.
        """
        by_pose = isinstance(self._simulation.controller, EndEffectorController)
        if target.pose is not None and not by_pose:
            raise ConfigError("this robot's controller takes targets of its joints, not poses")
        moves_joints = not (target.joints is target.velocities is target.efforts is None)
        if target.pose is None and moves_joints and by_pose:
            raise ConfigError("this robot's controller takes poses, not targets of its joints")
        simulation, delay = self._simulation, self._simulation.delay_ticks
        if not delay:
            self._follow(target)
            return
        if target.pose is not None or moves_joints:
            simulation.schedule(partial(self._follow, replace(target, opening=None)), delay)
        if target.opening is not None:
            simulation.schedule(partial(simulation.controller.set_opening, target.opening), delay, moves=False)

    def _follow(self, target: ArmTarget) -> None:
        controller, data = self._simulation.controller, self._simulation.data
        if target.pose is not None:
            assert isinstance(controller, EndEffectorController)
            controller.set_reference(data, target.pose.position, target.pose.rotation)
        elif isinstance(controller, JointController):
            if target.joints is not None:
                controller.set_goal(data, target.joints)
            elif target.velocities is not None:
                controller.set_velocities(target.velocities)
            elif target.efforts is not None:
                controller.set_efforts(target.efforts)
        if target.opening is not None:
            controller.set_opening(target.opening)

    def measure(self) -> dict[str, Array]:
        """Return the readings of the robot's sensors, with noise.

        In addition to the groups of :class:`~robo_rl.sim.observation.ArmState`: ``joint_efforts`` (n,) [Nm or N],
        ``quaternion`` (w, x, y, z) of the end effector and ``fingers``, the positions of the gripper's joints [m].
        """
        data, arm = self._simulation.data, self._simulation.arm
        state, measured, first = self._simulation.measure_state(), {}, 0
        for group, size in arm.groups.items():
            measured[group] = state[first : first + size]
            first += size
        axes, quaternion = np.empty((3, 3)), np.empty(4)
        x, y, z = axes
        x[:], y[:] = measured["orientation"][:3], measured["orientation"][3:]
        mujoco.mju_normalize3(x)  # noise makes the columns no longer orthonormal
        y -= (x @ y) * x
        mujoco.mju_normalize3(y)
        mujoco.mju_cross(z, x, y)
        mujoco.mju_mat2Quat(quaternion, axes.T.ravel())
        measured["quaternion"] = quaternion
        measured["joint_efforts"] = data.qfrc_actuator[self._dofs].copy()
        measured["fingers"] = data.qpos[self._fingers].copy()
        return measured

    def fixed_frames(self) -> list[FrameTransform]:
        """Return the frames of :class:`ArmFrames` that are fixed in their parent."""
        return self._frames.fixed()

    def moving_frames(self, measured: dict[str, Array]) -> list[FrameTransform]:
        """Return the frames that move, for joint positions from :meth:`measure`."""
        return self._frames.moving(measured["joint_positions"])
