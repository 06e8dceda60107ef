"""Kinds of robots that the driver supports: arms and mobile bases."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    ArmPose,
    ArmTarget,
    ConfigError,
    DriverError,
    EnvBackend,
    EnvSpec,
    RobotDescription,
    SpecError,
    announce,
    require,
    shortest,
    vector_of_matrix,
)

from ..ros2 import Node
from .agreement import TURN_TOLERANCE, MismatchError, PoseCorrection
from .commanding import GO_ON, ArmCommander, BaseCommander, check_command
from .config import COMMANDS, RobotConfig
from .gripper import GRIPPER, GripperCommander
from .layout import BASE_KINDS, ArmModel, ObservationLayout, SourceLayout
from .namesakes import acted_instead, unheard
from .unheld import UnheldStop

Array = NDArray[np.float64]

JOINT_JUMP = 0.2
"""Largest motion of a joint in one control period beyond what its speed limit allows [rad or m]."""

FORCE_AT_REST = 30.0
"""Force at the wrist of an arm at rest above which it is reported [N]; or a quarter of the largest contact force."""


@runtime_checkable
class SimulatedArm(EnvBackend, Protocol):
    """Simulation of a task for an arm; :class:`robo_rl.sim.backend.ArmBackend` is one."""

    @property
    def robot(self) -> RobotDescription: ...

    def as_model(self) -> ArmModel:
        """Return the arm's kinematics and the meaning of the task's actions."""
        ...


class Body(Protocol):
    """Interface to one kind of robot.

    Attributes:
        layout: builds observations from messages.
    """

    @property
    def layout(self) -> SourceLayout: ...

    def open(self, node: Node) -> None:
        """Create the publishers and clients for commands."""
        ...

    def missing(self) -> list[str]:
        """Return a text for each command that has no receiver."""
        ...

    def turn_on(self) -> None:
        """Switch on the receiver of the commands, if it needs that. The receiver must exist.

        Raises:
            DriverError: if it refuses or does not answer.
        """
        ...

    def begin(self, messages: Mapping[str, Any]) -> None:
        """Begin an episode at the robot's current posture.

        Raises:
            SpecError: if a message is not as expected.
            DriverError: if the robot is not the one that the task is for.
        """
        ...

    def plan(self, messages: Mapping[str, Any], action: NDArray[np.float32]) -> Any:
        """Return the command for ``action`` in the robot's current state, which :meth:`send` sends repeatedly.

        Raises:
            SpecError: if a message is not as expected.
        """
        ...

    def send(self, plan: Any, messages: Mapping[str, Any]) -> None:
        """Send what :meth:`plan` returned.

        Args:
            plan: command of this control period.
            messages: newest message of each source.

        Raises:
            SpecError: if a message is not as expected.
            DriverError: if the robot refuses an earlier command.
        """
        ...

    def hold(self, messages: Mapping[str, Any]) -> None:
        """Command the robot to stay where it is, if that is known. The message of a source is None if it is too old."""
        ...

    def stop_motion(self) -> None:
        """Stop a motion that would continue without further commands. A robot that takes targets stops by itself."""
        ...

    def settle(self) -> None:
        """Stop a motion that would continue without further commands. A robot that takes targets stops by itself."""
        ...

    def close(self) -> None:
        """Wait until all commands have been received, so that none of them is executed after the reset that follows.

        Raises:
            SafetyStop: if the robot was commanded to hold, but continues to move.
        """
        ...


class ArmBody:
    """Arm with or without a gripper.

    Raises:
        ConfigError: if the robot does not provide what the task observes, or cannot execute its actions.
    """

    def __init__(self, config: RobotConfig, simulation: SimulatedArm) -> None:
        spec = simulation.spec
        moves_gripper = spec.action.names[-1:] == ("gripper",)
        if moves_gripper and config.gripper.kind == "none":
            raise ConfigError(
                f"robot {config.name!r} has no gripper (robot.gripper.kind=none), but actions of {spec.task!r} move "
                "one; choose task.controller.action_axes without it"
            )
        self._config, self._period = config, 1.0 / spec.control_rate
        self._description = simulation.robot
        command, count = config.command, len(self._description.joints)
        self._stiffness, self._damping, self._effort = (
            _for_each_joint(f"robot.command.{key}", getattr(command, key), count)
            for key in ("stiffness", "damping", "effort")
        )
        self._model = simulation.as_model()
        self._layout = ObservationLayout(config, spec, self._description.joints, self._model)
        source = config.sources.get(self._layout.by_kind.get("end_effector_pose", ""))
        skew = 0.0 if source is None else source.max_age
        self._correction = PoseCorrection(config.pose_tolerance, skew, self._period)
        self._endless = self._description.endless
        self._largest_motion = 2 * self._period * np.array(self._description.speed) + JOINT_JUMP
        self._bias_reported = False
        self._unheld = UnheldStop(config)
        self._positions = np.array(self._description.home)  # joint positions (n,) of the last plan

    @property
    def layout(self) -> ObservationLayout:
        return self._layout

    def open(self, node: Node) -> None:
        self._node = node
        self._arm = ArmCommander(node, self._config.command, self._description.joints, self._period, self._unheld.stop)
        self._gripper = GripperCommander(node, self._config.gripper)

    def missing(self) -> list[str]:
        missing = [
            unheard(self._node, publisher)
            for publisher in (self._arm.publisher, self._gripper.publisher)
            if publisher is not None and publisher.matched_count == 0
        ]
        actions = ((COMMANDS[self._config.command.kind], self._arm.client), (GRIPPER, self._gripper.client))
        missing += [
            f"no action {client.action}{acted_instead(self._node, client.action, kind)}"
            for kind, client in actions
            if client and not client.wait(0.0)
        ]
        return missing

    def turn_on(self) -> None:
        self._arm.turn_on()

    def begin(self, messages: Mapping[str, Any]) -> None:
        positions, _ = self._layout.joints(messages)
        self._model.begin(positions)
        modelled, measured = self._model.pose(positions), self._layout.pose(messages)
        self._check_pose(modelled, measured)
        self._correction.begin(modelled, measured)
        self._positions = positions
        self._report_bias(messages)
        self._arm.reset()
        self._gripper.reset()

    def plan(self, messages: Mapping[str, Any], action: NDArray[np.float32]) -> tuple[ArmTarget, ArmPose]:
        """Return the target of ``action`` from the arm's current state, and the current pose of the end effector.

        Robot and model differ by calibration. Target poses of the model are corrected to the robot's end effector, so
        that the arm does not drift. No single measurement makes the arm jump.
        """
        positions, velocities = self._layout.joints(messages)
        if (self._moved(positions) > self._largest_motion).any():
            joint = int((self._moved(positions) - self._largest_motion).argmax())
            raise MismatchError(
                f"{self._description.joints[joint]} jumped from {self._positions[joint]:.3f} to {positions[joint]:.3f} "
                f"within a control period; {self._largest_motion[joint]:.3f} are allowed"
            )
        modelled = self._model.pose(positions)
        speeds = np.linalg.norm(self._model.velocity(positions, velocities), axis=1)
        fastest = self._description.linear_speed, self._description.angular_speed
        self._correction.update(modelled, self._layout.pose(messages), np.minimum(speeds, fastest))
        self._positions = positions
        target = self._model.target(positions, action)
        if target.pose is not None:
            target = replace(target, pose=self._correction.apply(target.pose))
        if target.joints is not None and self._config.command.kind == "joint_velocities":
            velocities = shortest(target.joints - positions, self._endless) / self._period
            # No joint exceeds its largest speed, and the direction towards the target is kept.
            velocities /= max(1.0, float(np.max(np.abs(velocities) / self._description.speed)))
            target = replace(target, joints=None, velocities=velocities)
        return target, self._correction.apply(modelled)

    def send(self, plan: tuple[ArmTarget, ArmPose], messages: Mapping[str, Any]) -> None:
        target, pose = plan
        self._arm.check()
        if target.opening is not None:
            self._gripper.send(target.opening)
        if target.joints is not None and self._config.command.kind == "joint_efforts":
            positions, velocities = self._layout.joints(messages)
            difference = shortest(target.joints - positions, self._endless)
            efforts = self._stiffness * difference - self._damping * velocities
            target = ArmTarget(efforts=np.clip(efforts, -self._effort, self._effort))
        self._arm.send(target, pose)

    def hold(self, messages: Mapping[str, Any]) -> None:
        self._gripper.stop()
        if self._config.command.kind in (*GO_ON, "joint_trajectory_action"):
            self._arm.stop()
            return
        joints, reason = self._layout.by_kind["joints"], ""
        if messages[joints] is None:
            reason = f"{joints} did not say of late"
        else:
            try:
                positions, _ = self._layout.joints(messages)
            except SpecError:
                return  # the posture is unknown, so the robot's own reaction to missing commands applies
            if (self._moved(positions) > self._largest_motion).any():
                reason = f"{joints} contradicts itself about"
        if reason:
            announce(
                f"Robot {self._config.name} is not told to stay where it is, which {reason}: it is left with what it "
                "does in silence"
            )
            return
        # not the measured pose, which may be the faulty measurement
        pose = self._correction.apply(self._model.pose(positions))
        if self._config.command.kind == "pose":
            self._arm.send(ArmTarget(pose=pose), pose)
        else:
            self._arm.send(ArmTarget(joints=positions), pose)

    def stop_motion(self) -> None:
        if self._config.command.kind in GO_ON:
            self._arm.stop()

    def settle(self) -> None:
        self._arm.settle()
        self._unheld.check()
        self._gripper.settle()

    def close(self) -> None:
        self._arm.close()
        self._gripper.close()

    def _report_bias(self, messages: Mapping[str, Any]) -> None:
        """Print a warning once if a force is measured at rest, because safety filters may then slow every action."""
        if self._layout.wrench is None or self._bias_reported:
            return
        force = float(np.linalg.norm(self._layout.wrench(messages[self._layout.by_kind["wrist_wrench"]])[:3]))
        if force > min(FORCE_AT_REST, self._description.force / 4):
            self._bias_reported = True
            announce(
                f"Robot {self._config.name} measures {force:.0f} N at its wrist at rest. Tare its sensor, or take that "
                "off when episodes begin: robot.tare.seconds=0.5 (and robot.tare.force, if it is the sensor's bias)"
            )

    def _moved(self, positions: Array) -> Array:
        """Return the distance of each joint (n,) from its position at the last plan."""
        return np.abs(shortest(positions - self._positions, self._endless))

    def _check_pose(self, modelled: ArmPose, measured: ArmPose) -> None:
        """Raise :class:`DriverError` if robot and task do not have the same arm."""
        distance = float(np.linalg.norm(measured.position - modelled.position))
        turned = float(np.linalg.norm(vector_of_matrix(measured.rotation @ modelled.rotation.T)))
        differs = []
        if distance > self._config.pose_tolerance:
            allowed = f"{self._config.pose_tolerance:g} m are allowed (robot.pose_tolerance)"
            differs.append(f"{distance:.3f} m from where the task's arm has it with the same joints; {allowed}")
        if turned > TURN_TOLERANCE:
            differs.append(
                f"turned by {turned:.3f} rad from how the task's arm has it with the same joints; {TURN_TOLERANCE:g} "
                "rad are allowed"
            )
        if differs:
            raise DriverError(
                f"robot {self._config.name!r} measures its end effector {', and '.join(differs)}. Give the task this "
                "robot's model (task.arm) and the robot the same tool frame"
            )


class BaseBody:
    """Mobile base with the actions steering and throttle.

    Raises:
        ConfigError: if the robot does not provide what the task observes.
    """

    def __init__(self, config: RobotConfig, spec: EnvSpec) -> None:
        self._config = config
        self._places = [spec.action.names.index(name) for name in ("steering", "throttle")]
        self._layout = SourceLayout(config, spec, (), BASE_KINDS, {})

    @property
    def layout(self) -> SourceLayout:
        return self._layout

    def open(self, node: Node) -> None:
        self._node = node
        self._commander = BaseCommander(node, self._config.command)

    def missing(self) -> list[str]:
        publisher = self._commander.publisher
        return [] if publisher.matched_count else [unheard(self._node, publisher)]

    def turn_on(self) -> None: ...

    def begin(self, messages: Mapping[str, Any]) -> None: ...

    def plan(self, messages: Mapping[str, Any], action: NDArray[np.float32]) -> tuple[float, float]:
        steering, throttle = action[self._places].tolist()
        return steering, throttle

    def send(self, plan: tuple[float, float], messages: Mapping[str, Any]) -> None:
        self._commander.send(*plan)

    def hold(self, messages: Mapping[str, Any]) -> None:
        self._commander.stop()

    def stop_motion(self) -> None:
        self._commander.stop()

    def settle(self) -> None:
        self._commander.settle()

    def close(self) -> None: ...


def _for_each_joint(key: str, values: Sequence[float], count: int) -> Array:
    """Return one value for each of ``count`` joints; a single value applies to all of them.

    Raises:
        ConfigError: if ``values`` has another length.
    """
    require(len(values) in (0, 1, count), key, f"one value, or one for each of {count} joints", tuple(values))
    return np.broadcast_to(np.array(values or (0.0,), np.float64), (count,))


def make_body(config: RobotConfig, simulation: EnvBackend) -> Body:
    """Return the body for the kind of robot that the task needs.

    Raises:
        ConfigError: if no robot can do the task, or this one cannot.
    """
    spec = simulation.spec
    if not isinstance(simulation, SimulatedArm) and spec.action_space != "steering_throttle":
        raise ConfigError(
            f"robot {config.name!r} needs a task with a simulated arm or car, which says what is observed and what "
            f"actions mean; {spec.task!r} has none"
        )
    check_command(config.command, spec)
    return ArmBody(config, simulation) if isinstance(simulation, SimulatedArm) else BaseBody(config, spec)
