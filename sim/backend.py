"""An arm in simulation as an ``EnvBackend``."""

import math
from dataclasses import replace

from robo_rl.core import ConfigError, RobotDescription, ScriptedExpert

from .arm_model import ArmModel
from .config import TaskConfig
from .episode import SimulatedBackend, SimulatedTask
from .identification import ArmIdentification
from .simulated_robot import SimulatedRobot
from .simulation import ArmSimulation


class ArmBackend(SimulatedBackend):
    """A simulated arm in a task.

    Args:
        task: world around the arm, made from its configuration.

    Attributes:
        arm: reader of the arm's state.
        controller: converts actions into torques.
    """

    config: TaskConfig
    simulation: ArmSimulation

    def __init__(self, task: SimulatedTask) -> None:
        simulation = ArmSimulation(task.config, task.build)
        self.arm, self.controller = simulation.arm, simulation.controller
        super().__init__(task, simulation)

    @property
    def robot(self) -> RobotDescription:
        arm, controller = self.config.arm, self.config.controller
        joints = [self.model.joint(name) for name in arm.joints]
        ranges = [joint.range if joint.limited[0] else (-math.inf, math.inf) for joint in joints]
        return RobotDescription(
            model=self.model,
            joints=tuple(arm.joints),
            home=tuple(arm.home),
            end_effector=arm.end_effector,
            position_lower=tuple(float(low) for low, _ in ranges),
            position_upper=tuple(float(high) for _, high in ranges),
            command_lower=tuple(self.controller.lower.tolist()),
            command_upper=tuple(self.controller.upper.tolist()),
            speed=tuple(arm.velocity_limits),
            velocity=tuple(arm.command_velocity * limit for limit in arm.velocity_limits),
            acceleration=(arm.command_acceleration,) * len(arm.joints),
            jerk=(arm.command_jerk,) * len(arm.joints),
            joint_delta=controller.joint_scale,
            workspace_low=tuple(controller.workspace_low),
            workspace_high=tuple(controller.workspace_high),
            controller_holds_workspace=controller.action_space == "end_effector_delta",
            linear_speed=arm.speed_limit,
            angular_speed=arm.rotation_speed_limit,
            force=arm.force_limit,
            torque=arm.torque_limit,
            fingers=tuple(arm.gripper_joints) if arm.gripper_actuator is not None else (),
            finger_strokes=tuple((float(closed), float(opened)) for closed, opened in self.arm.finger_strokes),
        )

    def captions(self) -> dict[str, bool]:
        """Return sentences about images of the current state, and whether each is true."""
        return self.task.captions(self.data)

    def expert(self, seed: int) -> ScriptedExpert:
        """Return a scripted expert of the task.

        Raises:
            ConfigError: if actions do not move the end effector.
        """
        space = self.config.controller.action_space
        if space != "end_effector_delta":
            raise ConfigError(f"the scripted expert needs controller.action_space=end_effector_delta, not {space}")
        return super().expert(seed)

    def as_robot(self) -> SimulatedRobot:
        """Return this arm as a robot that runs continuously instead of in steps."""
        return SimulatedRobot(self, self.simulation)

    def as_servos(self) -> SimulatedRobot:
        """Return another arm in the same task as a robot that follows joint positions, whatever the actions are."""
        controller = replace(self.config.controller, action_space="joint_delta")
        backend = type(self.task)(replace(self.config, controller=controller)).make_backend()
        assert isinstance(backend, ArmBackend)
        return backend.as_robot()

    def as_model(self) -> ArmModel:
        """Return this arm's kinematics and the meaning of its actions, for the driver of a similar robot."""
        return ArmModel(self.simulation)

    def as_identification(self) -> ArmIdentification:
        """Return the identification of this arm from recordings.

        Raises:
            ConfigError: if actions do not move joints.
        """
        space = self.config.controller.action_space
        if space == "end_effector_delta":
            raise ConfigError(f"identification needs commands of joints, not task.controller.action_space={space}")
        return ArmIdentification(self.config)
