"""Angles a turn apart, the two quaternions of a rotation, and fingers that open in either direction."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ArmPose, ArmTarget, SpecError, matrix_of_quaternion
from robo_rl.drivers.robot.commanding import ArmCommander
from robo_rl.drivers.robot.config import CommandConfig, RobotConfig, SourceConfig
from robo_rl.drivers.robot.decoding import make_decoder
from robo_rl.drivers.robot.layout import ObservationLayout
from robo_rl.drivers.robot.transforms import TransformTree
from robo_rl.drivers.ros2.message_types import RosbagsTypes
from robo_rl.drivers.teleop.config import LeaderConfig
from robo_rl.drivers.teleop.following import JointFollowing
from robo_rl.reset.paths import POSTURES_APART, ArmPaths
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig
from robo_rl.sim.controller import exponential

from ..rigs.robot_rig import Recorder
from ..rigs.specs import steered_spec

TYPES = RosbagsTypes()
JOINT_STATE = "sensor_msgs/msg/JointState"
JOINTS = ("pan", "lift", "elbow", "wrist_pitch", "wrist_yaw", "wrist_roll")
HOME = (0.0, 0.3, 1.4, 1.2, 0.3, 3.0)


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> ArmBackend:
    """The six-joint arm, whose last joint turns without end."""
    text = (Path(__file__).parents[1] / "data" / "arms" / "six_joints.xml").read_text()
    start = text.index('name="wrist_roll"')
    limits = text.index('range="', start)
    file = tmp_path_factory.mktemp("arm") / "endless.xml"
    file.write_text(text[:limits] + text[text.index('"', limits + len('range="')) + 1 :])
    config = ArmConfig(
        model=str(file),
        joints=JOINTS,
        end_effector="tip",
        home=HOME,
        home_noise=0.0,
        torque_limits=(50.0,) * 6,
        velocity_limits=(2.0,) * 6,
        gripper_actuator=None,
        gripper_joints=(),
        wrist_sensor_site=None,
    )
    controller = ControllerConfig(action_space="joint_delta", action_axes="xyz", joint_scale=0.2)
    return make_backend("reach", arm=config, controller=controller)


@pytest.mark.parametrize("turns", [-3, -1, 0, 1, 8])
def test_a_robot_may_count_an_endless_joint_over_whole_turns(arm: ArmBackend, turns: int) -> None:
    sources = {"joints": SourceConfig("joint_states", JOINT_STATE, "joints")}
    config = RobotConfig(sources=sources, unmeasured=("wrist_force", "wrist_torque"))
    spec = dataclasses.replace(arm.spec, observation={"state": arm.spec.observation["state"]})
    model = arm.as_model()
    layout = ObservationLayout(config, spec, JOINTS, model)
    counted = np.array([*HOME[:5], HOME[5] + turns * 2 * math.pi])
    message = TYPES.make(JOINT_STATE, name=list(JOINTS), position=counted, velocity=np.zeros(6))
    observed = layout.observation({"joints": message})["state"]
    np.testing.assert_allclose(observed[:6], HOME, atol=1e-5)
    np.testing.assert_array_equal(layout.joints({"joints": message})[0], counted)
    model.begin(counted)
    target = model.target(counted, np.array([0, 0, 0, 0, 0, 1], np.float32)).joints
    assert target is not None
    np.testing.assert_allclose(target - counted, [0, 0, 0, 0, 0, 0.2], atol=1e-3)


@pytest.mark.parametrize(
    ("joint", "home", "way"), [(3.0, -3.0, 0.283), (-3.1, 3.1, -0.083), (9.0, 2.7, 0.0), (1, 0, -1)]
)
def test_the_way_home_is_the_shorter_one_round(arm: ArmBackend, joint: float, home: float, way: float) -> None:
    paths = ArmPaths(arm.robot, 0.01)
    first, last = np.array([*HOME[:5], joint]), np.array([*HOME[:5], home])
    path = paths.between(first, last)
    assert path[-1][5] - path[0][5] == pytest.approx(way, abs=0.02)
    assert np.abs(np.diff(path, axis=0)).max(initial=0.0) <= POSTURES_APART + 1e-9
    np.testing.assert_allclose(paths.pose(path[-1])[1], paths.pose(last)[1], atol=1e-9)
    limited = path[0] + [0, 0, 0, 0, 0.5, 0]
    assert paths.between(path[0], limited)[-1][4] == pytest.approx(limited[4])


@pytest.mark.parametrize(
    ("before", "after", "motion"), [(3.1, -3.1, 0.083), (-3.1, 3.1, -0.083), (6.2, 0.05, 0.133), (0.2, 0.5, 0.3)]
)
def test_a_leader_whose_servo_begins_again_at_half_a_turn_moves_on(before: float, after: float, motion: float) -> None:
    spec = steered_spec(("a",), reward_terms=(), extra={"joint_scale": 1.0})
    following = JointFollowing(spec, LeaderConfig())
    following.note(np.array([before]), np.array([after]))
    assert following.take()[0] == pytest.approx(motion, abs=1e-3)


def signed(quaternion: np.ndarray, sign: float) -> dict[str, float]:
    return dict(zip("xyzw", (sign * quaternion).tolist(), strict=True))


HALF_TURNS = [np.array([1.0, 0, 0, 0]), np.array([0, 0, 1.0, 0]), np.array([0.6, 0, 0.8, 0]), np.array([0, 0, 0, 1.0])]


@pytest.mark.parametrize("quaternion", HALF_TURNS)
def test_both_quaternions_of_a_rotation_are_observed_alike(quaternion: np.ndarray) -> None:
    pose = make_decoder(SourceConfig("pose", "geometry_msgs/msg/PoseStamped", "end_effector_pose"), {}, (), ())
    upward = make_decoder(SourceConfig("imu", "sensor_msgs/msg/Imu", "orientation"), {}, (), ())
    observed: list[Any] = []
    for sign in (1.0, -1.0):
        orientation = signed(quaternion, sign)
        observed.append(
            [
                pose(TYPES.make("geometry_msgs/msg/PoseStamped", pose={"orientation": orientation})),
                upward(TYPES.make("sensor_msgs/msg/Imu", orientation=orientation)),
            ]
        )
        tree = TransformTree()
        stamp = SimpleNamespace(sec=1, nanosec=0)
        shift, turn = SimpleNamespace(x=0.1, y=0.2, z=0.3), SimpleNamespace(**orientation)
        transform = SimpleNamespace(
            child_frame_id="tool",
            header=SimpleNamespace(frame_id="base", stamp=stamp),
            transform=SimpleNamespace(translation=shift, rotation=turn),
        )
        tree.update(SimpleNamespace(transforms=[transform]), 1)
        placement = tree.look_up("tool", "base")
        assert placement is not None
        observed[-1].append(placement.rotation)
    for one, other in zip(*observed, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axis", np.vstack([np.eye(3), [[0.6, 0, 0.8]]]))
def test_the_quaternions_of_poses_that_are_sent_never_change_their_sign(axis: np.ndarray) -> None:
    """Controllers that filter or interpolate them would turn the arm nearly once round."""
    node = Recorder()
    commander = ArmCommander(node, CommandConfig(kind="pose", topic="pose"), ("a",), 0.1)
    for angle in np.arange(0.0, 4 * math.pi, 0.1):
        pose = ArmPose(np.zeros(3), exponential(angle * axis))
        commander.send(ArmTarget(pose=pose), pose)
    sent = [message.pose.orientation for message in node.published["pose"]]
    quaternions = np.array([[each.x, each.y, each.z, each.w] for each in sent])
    assert (np.sum(quaternions[1:] * quaternions[:-1], axis=1) > 0.99).all()
    for angle, quaternion in zip(np.arange(0.0, 4 * math.pi, 0.1), quaternions, strict=True):
        np.testing.assert_allclose(matrix_of_quaternion(quaternion), exponential(angle * axis), atol=1e-9)


@pytest.mark.parametrize(
    ("positions", "closed", "open_", "opening"),
    [
        ([0.03, 0.03], 0.0, 0.04, 0.75),
        ([0.2, 0.2], 0.8, 0.0, 0.75),  # closed is the upper end
        ([-0.03, -0.03], 0.0, -0.04, 0.75),
        ([-0.002, -0.002], 0.0, 0.04, -0.05),  # calibration
        ([0.03, -0.03], 0.0, 0.04, None),  # fingers of opposite directions, whose mean never changes
        ([40.0, 40.0], 0.0, 0.04, None),  # millimetres
        ([-0.03, -0.03], 0.0, 0.04, None),
    ],
)
def test_fingers_are_open_as_the_configuration_says_or_refused(
    positions: list[float], closed: float, open_: float, opening: float | None
) -> None:
    source = SourceConfig("fingers", JOINT_STATE, "gripper", names=("left", "right"), closed=closed, open=open_)
    decode = make_decoder(source, {}, (), ())
    message = TYPES.make(JOINT_STATE, name=["left", "right"], position=positions)
    if opening is None:
        with pytest.raises(SpecError, match=r"fingers: the finger '(left|right)' is at .*, far from closed=0 and open"):
            decode(message)
    else:
        assert decode(message) == pytest.approx([opening])
