"""Topics of the virtual robot, with the names that ros2_control's controllers and broadcasters use."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArmPose, ArmTarget, BaseTarget, FrameTransform, matrix_of_quaternion, quaternion_of_matrix

from ..ros2 import LATCHED, Node, QoSProfile, Repeater, ServerGoal
from .config import VirtualRobotConfig
from .controllers import ControllerManager, arm_controllers
from .simulated import Simulated, SimulatedArm, SimulatedVehicle
from .trajectories import NAME as TRAJECTORIES
from .trajectories import TRAJECTORY, TrajectoryController

Array = NDArray[np.float64]

JOINT_STATE = "sensor_msgs/msg/JointState"
POSE = "geometry_msgs/msg/PoseStamped"
TWIST = "geometry_msgs/msg/TwistStamped"
WRENCH = "geometry_msgs/msg/WrenchStamped"
TRANSFORMS = "tf2_msgs/msg/TFMessage"
NUMBERS = "std_msgs/msg/Float64MultiArray"
ACKERMANN = "ackermann_msgs/msg/AckermannDriveStamped"
FORWARD: dict[str, Callable[[Array], ArmTarget]] = {
    "position": lambda values: ArmTarget(joints=values),
    "velocity": lambda values: ArmTarget(velocities=values),
    "effort": lambda values: ArmTarget(efforts=values),
}
"""Targets of forward_KIND_controller by kind."""
STATE_QOS = QoSProfile(depth=10)
CAMERA_QOS = QoSProfile(depth=2)
COMMAND_QOS = QoSProfile(depth=1)
DEAF_SECONDS = 0.01
DEAF_TICKS = 2
"""Timer ticks after a reset until messages count as commands again. Between two ticks, the node's thread has handled
all messages that waited while it answered the reset.
"""
BASE = "base"
GRIPPER = "control_msgs/action/GripperCommand"
GRIPPER_TOLERANCE = 0.002
"""Distance from a goal at which the fingers have reached it [m]."""
GRIPPER_STILL = 0.0002
"""Motion of the fingers below which they count as still [m]."""
GRIPPER_STALL_STATES = 100
"""Number of states in a row without motion that count as a stall."""
GRIPPER_POLL_SECONDS = 0.02


class Topics(ABC):
    """Topics that every virtual robot publishes: objects, rewards, readiness, diagnostics and images."""

    def __init__(self, node: Node, config: VirtualRobotConfig, robot: Simulated) -> None:
        self._node, self._robot = node, robot
        self._compressed = config.compressed
        self._image_type = f"sensor_msgs/msg/{'CompressedImage' if config.compressed else 'Image'}"
        publish = node.create_publisher
        self._objects = self._named_numbers("task/objects", robot.object_names) if robot.object_names else None
        self._rewards: Repeater | None = None  # created with the first state
        self._transforms = publish(TRANSFORMS, "/tf", QoSProfile(depth=100))
        self._moving: Repeater | None = None
        self._states = 0
        self._states_a_transform = round(config.state_rate / config.transform_rate)
        self._published_ready: bool | None = None
        self._motion_number = 0  # number of the current motion; a newer motion replaces it
        self._ignored_ticks = 0  # ticks until commands are accepted again
        node.create_timer(DEAF_SECONDS, self._tick)
        self._ready = publish("std_msgs/msg/Bool", "robot_program_running", LATCHED)
        self._diagnostics = publish("diagnostic_msgs/msg/DiagnosticArray", "diagnostics", QoSProfile(depth=10))
        suffix = "/compressed" if config.compressed else ""
        self._images = {
            camera: publish(self._image_type, f"{camera}/image_raw{suffix}", CAMERA_QOS) for camera in robot.cameras
        }

    def end_motion(self, reason: str) -> None:
        """Abort motions that need no further commands, and ignore messages that were sent before."""
        self._ignored_ticks = DEAF_TICKS
        self._motion_number += 1

    def _subscribe(self, kind: str, topic: str, take: Callable[[Any], None]) -> None:
        """Call ``take`` in the node's thread with the commands of a topic, except those sent before a reset."""

        def take_if_new(message: Any) -> None:
            if not self._ignored_ticks:
                take(message)

        self._node.create_subscription(kind, topic, take_if_new, COMMAND_QOS)

    def _tick(self) -> None:
        """Count down after a reset; called in the node's thread."""
        self._ignored_ticks = max(0, self._ignored_ticks - 1)

    def publish_state(self) -> None:
        """Publish measurements, object states and rewards of one instant."""
        stamp = self._node.now()
        measured = self._robot.measure()
        self._publish_measured(measured, stamp)
        if self._states % self._states_a_transform == 0:
            self._publish_moving(self._moving_frames(measured), stamp)
        self._states += 1
        if self._objects is not None:
            self._objects.publish(stamp, self._robot.objects())
        rewards = self._robot.rewards()
        if self._rewards is None:
            self._rewards = self._named_numbers("task/rewards", [*rewards])
        self._rewards.publish(stamp, np.array([*rewards.values()]))

    def _named_numbers(self, topic: str, names: Sequence[str]) -> Repeater:
        """Return a publisher of the positions of ``names`` as a JointState."""
        fields = {"header": {"frame_id": BASE}, "name": list(names), "position": np.zeros(len(names))}
        message = self._node.types.make(JOINT_STATE, **fields)
        return self._node.create_publisher(JOINT_STATE, topic, STATE_QOS).repeater(message)

    def _publish_moving(self, frames: Sequence[FrameTransform], stamp: Any) -> None:
        if self._moving is None:
            self._moving = self._transforms.repeater(self._transforms_message(frames, stamp))
        numbers = [part for frame in frames for part in (frame.position, quaternion_of_matrix(frame.rotation))]
        self._moving.publish(stamp, np.concatenate(numbers))

    @abstractmethod
    def _publish_measured(self, measured: Mapping[str, Array], stamp: Any) -> None:
        """Publish the measurements of the sensors of this kind of robot."""

    @abstractmethod
    def _moving_frames(self, measured: dict[str, Array]) -> list[FrameTransform]:
        """Return the frames of this kind of robot that move."""

    def _transforms_message(self, frames: Sequence[FrameTransform], stamp: Any) -> Any:
        transforms = []
        for frame in frames:
            turn = dict(zip("xyzw", quaternion_of_matrix(frame.rotation).tolist(), strict=True))
            header = {"stamp": stamp, "frame_id": frame.parent}
            transform = {"translation": _vector(frame.position), "rotation": turn}
            transforms.append({"header": header, "child_frame_id": frame.child, "transform": transform})
        return self._node.types.make(TRANSFORMS, transforms=transforms)

    def publish_ready(self, ready: bool) -> None:
        """Publish whether commands are executed, if that has changed."""
        if ready == self._published_ready:
            return
        self._published_ready = ready
        self._ready.publish(self._node.types.make("std_msgs/msg/Bool", data=ready))

    def publish_diagnostics(self, level: int, message: str, values: Mapping[str, str]) -> None:
        """Publish the diagnostics of the robot: level 0 good, 1 warning, 2 error."""
        status = {
            "level": level,
            "name": f"{self._node.name}: robot",
            "message": message,
            "hardware_id": "simulation",
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        kind = "diagnostic_msgs/msg/DiagnosticArray"
        self._diagnostics.publish(self._node.types.make(kind, header={"stamp": self._node.now()}, status=[status]))

    def publish_image(self, camera: str, image: NDArray[np.uint8]) -> None:
        """Publish a camera's picture (height, width, 3)."""
        header = {"stamp": self._node.now(), "frame_id": f"{camera}_optical_frame"}
        fields: dict[str, Any]
        if self._compressed:
            _, data = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
            fields = {"format": "rgb8; jpeg compressed bgr8", "data": data.ravel()}
        else:
            height, width, _ = image.shape
            fields = {"height": height, "width": width, "encoding": "rgb8", "step": 3 * width, "data": image.ravel()}
        self._images[camera].publish(self._node.types.make(self._image_type, header=header, **fields))


class ArmTopics(Topics):
    """Topics of an arm: its measurements, and commands of active controllers, which become targets.

    Args:
        node: node of the virtual robot.
        config: configuration of the virtual robot.
        arm: simulated arm.
        obey: called with each target in the node's thread.
        hold: makes the arm hold its posture; called in the node's thread.
    """

    def __init__(
        self,
        node: Node,
        config: VirtualRobotConfig,
        arm: SimulatedArm,
        obey: Callable[[ArmTarget], None],
        hold: Callable[[], None],
    ) -> None:
        super().__init__(node, config, arm)
        self._arm, self._obey = arm, obey
        self._trajectories: TrajectoryController | None = None
        self._positions = np.zeros(len(arm.joints))
        self._fingers = self._still = np.zeros(len(arm.fingers))
        self._controllers = ControllerManager(node, arm_controllers(arm.joints, arm.fingers, arm.takes), hold)
        publish, make = node.create_publisher, node.types.make
        self._fixed = publish(TRANSFORMS, "/tf_static", LATCHED)
        self._fixed.publish(self._transforms_message(arm.fixed_frames(), node.now()))
        names, header = [*arm.joints, *arm.fingers], {"frame_id": BASE}
        still = np.zeros(len(names))
        state = {"header": header, "name": names, "position": still, "velocity": still, "effort": still}
        broadcaster = "cartesian_pose_broadcaster"
        self._joints = publish(JOINT_STATE, "joint_states", STATE_QOS).repeater(make(JOINT_STATE, **state))
        self._pose = publish(POSE, f"{broadcaster}/pose", STATE_QOS).repeater(make(POSE, header=header))
        self._velocity = publish(TWIST, f"{broadcaster}/twist", STATE_QOS).repeater(make(TWIST, header=header))
        wrench = make(WRENCH, header={"frame_id": "wrist"})
        self._wrench = publish(WRENCH, "force_torque_sensor_broadcaster/wrench", STATE_QOS).repeater(wrench)
        if arm.takes == "pose":
            self._listen(POSE, "cartesian_impedance_controller", "equilibrium_pose", self._take_pose)
        else:
            for kind, target in FORWARD.items():
                self._listen(NUMBERS, f"forward_{kind}_controller", "commands", partial(self._take_numbers, target))
            self._trajectories = TrajectoryController(
                node,
                arm.joints,
                config.real_time_factor,
                lambda: self._controllers.is_active(TRAJECTORIES),
                lambda: self._positions,
                obey,
                hold,
            )
            self._subscribe(TRAJECTORY, f"{TRAJECTORIES}/joint_trajectory", self._trajectories.take)
        if arm.fingers:
            self._listen(NUMBERS, "gripper_controller", "commands", self._take_gripper)
            node.create_action_server(GRIPPER, "gripper_controller/gripper_cmd", self._grip)

    def _listen(self, kind: str, controller: str, topic: str, take: Callable[[Any], None]) -> None:
        """Call ``take`` in the node's thread with messages of a controller's topic while the controller is active."""

        def take_if_active(message: Any) -> None:
            if self._controllers.is_active(controller):
                take(message)

        self._subscribe(kind, f"{controller}/{topic}", take_if_active)

    def end_motion(self, reason: str) -> None:
        super().end_motion(reason)
        if self._trajectories is not None:
            self._trajectories.end(reason)

    def _moving_frames(self, measured: dict[str, Array]) -> list[FrameTransform]:
        return self._arm.moving_frames(measured)

    def _publish_measured(self, measured: Mapping[str, Array], stamp: Any) -> None:
        self._fingers, self._positions = measured["fingers"], measured["joint_positions"]
        is_active, still = self._controllers.is_active, self._still
        if is_active("joint_state_broadcaster"):
            position, velocity, effort = self._positions, measured["joint_velocities"], measured["joint_efforts"]
            self._joints.publish(stamp, np.concatenate([position, self._fingers, velocity, still, effort, still]))
        if is_active("cartesian_pose_broadcaster"):
            w, *xyz = measured["quaternion"].tolist()
            self._pose.publish(stamp, np.array([*measured["position"].tolist(), *xyz, w]))
            linear, angular = measured["linear_velocity"], measured["angular_velocity"]
            self._velocity.publish(stamp, np.concatenate([linear, angular]))
        if is_active("force_torque_sensor_broadcaster"):
            force, torque = measured["wrist_force"], measured["wrist_torque"]
            self._wrench.publish(stamp, np.concatenate([force, torque]))

    def _take_pose(self, message: Any) -> None:
        """Convert a command to a target; invalid poses are ignored."""
        position, quaternion = message.pose.position, message.pose.orientation
        values = np.array([position.x, position.y, position.z, quaternion.x, quaternion.y, quaternion.z, quaternion.w])
        if not np.isfinite(values).all() or not 0.9 < np.linalg.norm(values[3:]) < 1.1:
            return
        self._obey(ArmTarget(ArmPose(values[:3], matrix_of_quaternion(values[3:]))))

    def _take_numbers(self, target: Callable[[Array], ArmTarget], message: Any) -> None:
        values = np.asarray(message.data, dtype=np.float64)
        if values.shape == (len(self._arm.joints),) and np.isfinite(values).all():
            self._obey(target(values))

    def _take_gripper(self, message: Any) -> None:
        values = np.asarray(message.data, dtype=np.float64)
        if values.shape == (len(self._arm.fingers),) and np.isfinite(values).all():
            self._obey(ArmTarget(opening=self._opening(values)))

    def _opening(self, fingers: Array) -> float:
        closed, open_ = self._arm.finger_strokes.T
        return float(((fingers - closed) / (open_ - closed)).mean())

    def _grip(self, goal: ServerGoal) -> Any:
        """Move the fingers until they reach the goal or stall; called in the goal's thread.

        The position of a goal is that of the first finger.
        """
        make, goal_position, number = self._node.types.make, float(goal.request.command.position), self._motion_number
        closed, open_ = self._arm.finger_strokes[0].tolist()
        if not np.isfinite(goal_position) or not self._controllers.is_active("gripper_controller"):
            goal.abort()
            return make(f"{GRIPPER}_Result")
        self._obey(ArmTarget(opening=(goal_position - closed) / (open_ - closed)))
        moved_at, last_position = self._states, float("inf")
        while True:
            position = closed + self._opening(self._fingers) * (open_ - closed)
            if abs(position - last_position) > GRIPPER_STILL:
                moved_at, last_position = self._states, position
            reached = abs(position - goal_position) < GRIPPER_TOLERANCE
            stalled = not reached and self._states - moved_at > GRIPPER_STALL_STATES
            result = make(f"{GRIPPER}_Result", position=position, stalled=stalled, reached_goal=reached)
            if self._motion_number != number:  # the motion was aborted
                goal.abort()
                return result
            cancelled = goal.cancel_requested  # read once, because it is false after canceled()
            if cancelled:
                self._obey(ArmTarget(opening=self._opening(self._fingers)))
                goal.canceled()
            if reached or stalled or cancelled:
                return result
            time.sleep(GRIPPER_POLL_SECONDS)


class CarTopics(Topics):
    """Topics of a car: those that its drivers publish, and Ackermann or velocity commands.

    A commanded speed becomes a throttle of the same fraction of the top speed, as with a motor without speed control.

    Args:
        node: node of the virtual robot.
        config: configuration of the virtual robot.
        car: simulated car.
        obey: called with each target in the node's thread.
    """

    def __init__(
        self, node: Node, config: VirtualRobotConfig, car: SimulatedVehicle, obey: Callable[[BaseTarget], None]
    ) -> None:
        super().__init__(node, config, car)
        self._car, self._obey = car, obey
        publish = node.create_publisher
        self._odometry = publish("nav_msgs/msg/Odometry", "odom", STATE_QOS)
        self._imu = publish("sensor_msgs/msg/Imu", "sensors/imu/raw", STATE_QOS)
        self._state = publish(ACKERMANN, "drive_state", STATE_QOS)
        self._subscribe(
            ACKERMANN, "drive", lambda message: self._take(message.drive.speed, message.drive.steering_angle)
        )
        # The rotation rate of a twist is read as a steering angle.
        self._subscribe("geometry_msgs/msg/Twist", "cmd_vel", lambda twist: self._take(twist.linear.x, twist.angular.z))

    def _moving_frames(self, measured: dict[str, Array]) -> list[FrameTransform]:
        rotation = matrix_of_quaternion(np.roll(measured["quaternion"], -1))
        return [FrameTransform("odom", "base_link", measured["position"], rotation)]

    def _publish_measured(self, measured: Mapping[str, Array], stamp: Any) -> None:
        make = self._node.types.make
        header = {"stamp": stamp, "frame_id": "base_link"}
        w, x, y, z = measured["quaternion"].tolist()
        orientation = {"x": x, "y": y, "z": z, "w": w}
        pose = {"position": _vector(measured["position"]), "orientation": orientation}
        twist = {"linear": _vector(measured["velocity"]), "angular": _vector(measured["rotation_rate"])}
        world = {"stamp": stamp, "frame_id": "odom"}
        odometry = {"header": world, "child_frame_id": "base_link", "pose": {"pose": pose}, "twist": {"twist": twist}}
        self._odometry.publish(make("nav_msgs/msg/Odometry", **odometry))
        imu = {"linear_acceleration": _vector(measured["acceleration"]), "orientation": orientation}
        imu["angular_velocity"] = _vector(measured["rotation_rate"])
        self._imu.publish(make("sensor_msgs/msg/Imu", header=header, **imu))
        steering, speed = measured["drive"].tolist()
        drive = {"steering_angle": steering, "speed": speed}
        self._state.publish(make(ACKERMANN, header=header, drive=drive))

    def _take(self, speed: float, turn: float) -> None:
        values = np.array([turn / self._car.max_steering, speed / self._car.top_speed])
        if np.isfinite(values).all():  # NaN and infinity are ignored
            steering, throttle = np.clip(values, -1, 1).tolist()
            self._obey(BaseTarget(steering, throttle))


def _vector(values: Array) -> dict[str, float]:
    x, y, z = values.tolist()
    return {"x": x, "y": y, "z": z}
