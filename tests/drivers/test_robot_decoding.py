"""From messages to elements of the observation; what is wrong is named (fault cases 3 and 4)."""

import array
import struct
import zlib

import cv2
import numpy as np
import pytest

from robo_rl.core import (
    ArraySpec,
    ConfigError,
    SpecError,
    decode_ros_image,
    matrix_of_quaternion,
    quaternion_of_matrix,
    vector_of_matrix,
)
from robo_rl.core.ros_images import ENCODINGS
from robo_rl.drivers.robot.config import GripperConfig, SourceConfig
from robo_rl.drivers.robot.decoding import NamedNumbers, make_decoder
from robo_rl.drivers.ros2.message_types import RosbagsTypes
from robo_rl.drivers.teleop.config import LeaderConfig
from robo_rl.sim.controller import exponential

TYPES = RosbagsTypes()
JOINTS = ("a", "b", "c")
OBSERVATION = {
    "state": ArraySpec((1,), names=("a_position",)),
    "object": ArraySpec((2,), names=("goal_x", "goal_y")),
    "images/front": ArraySpec((12, 16, 3), "uint8", 0, 255),
}


def joint_state(**fields):
    return TYPES.make("sensor_msgs/msg/JointState", **fields)


def decoder(gives: str, kind: str, **fields):
    return make_decoder(SourceConfig("topic", kind, gives, **fields), OBSERVATION, JOINTS, ("success", "near"))


def test_rotations_against_their_exponential():
    rng = np.random.default_rng(0)
    for _ in range(300):
        vector = rng.normal(size=3)
        vector *= rng.uniform(0, 3.14) / np.linalg.norm(vector)
        rotation = exponential(vector)
        quaternion = quaternion_of_matrix(rotation)
        np.testing.assert_allclose(matrix_of_quaternion(quaternion), rotation, atol=1e-12)
        assert quaternion[3] >= 0
        np.testing.assert_allclose(vector_of_matrix(rotation), vector, atol=1e-9)
    for axis in np.eye(3):
        half_turn = exponential(np.pi * axis)
        np.testing.assert_allclose(matrix_of_quaternion(quaternion_of_matrix(half_turn)), half_turn, atol=1e-12)
    assert (vector_of_matrix(np.eye(3)) == 0).all()
    with pytest.raises(ValueError, match=r"unit quaternion, got one of length 0\.000"):
        matrix_of_quaternion(np.zeros(4))


def test_joints_are_found_by_name_in_any_order():
    decode = decoder("joints", "sensor_msgs/msg/JointState", names=("x", "y", "z"))
    assert decode.names == tuple(f"{joint}_{kind}" for kind in ("position", "velocity") for joint in JOINTS)
    message = joint_state(name=["z", "finger", "x", "y"], position=[3, 9, 1, 2], velocity=[30, 90, 10, 20])
    for _ in range(2):
        np.testing.assert_array_equal(decode(message), [1, 2, 3, 10, 20, 30])
    other = joint_state(name=["x", "y", "z"], position=[1, 2, 3], velocity=[4, 5, 6])
    np.testing.assert_array_equal(decode(other), [1, 2, 3, 4, 5, 6])
    with pytest.raises(SpecError, match="topic: expected 'y', got x, z"):
        decode(joint_state(name=["x", "z"], position=[1, 2]))
    with pytest.raises(SpecError, match="topic: 'y' occurs twice in x, y, y, z"):
        decode(joint_state(name=["x", "y", "y", "z"], position=[1, 2, 9, 3], velocity=[4, 5, 9, 6]))
    with pytest.raises(SpecError, match="topic: expected 'x', got left/x, left/y, left/z"):
        decode(joint_state(name=["left/x", "left/y", "left/z"], position=[1, 2, 3], velocity=[4, 5, 6]))
    others = joint_state(name=["x", "y", "z", "k", "k"], position=[1, 2, 3, 9, 9], velocity=[4, 5, 6, 9, 9])
    np.testing.assert_array_equal(decode(others), [1, 2, 3, 4, 5, 6])
    with pytest.raises(SpecError, match="topic: expected 3 values in 'velocity', got 0"):
        decode(joint_state(name=["z", "y", "x"], position=[1, 2, 3]))
    with pytest.raises(ConfigError, match="2 joint names are given, the task has 3"):
        decoder("joints", "sensor_msgs/msg/JointState", names=("x", "y"))


def test_the_gripper_opens_from_0_to_1():
    decode = decoder("gripper", "sensor_msgs/msg/JointState", names=("l", "r"), closed=0.8, open=0.0)
    for position, opening in ((0.8, 0.0), (0.0, 1.0), (0.2, 0.75)):
        assert decode(joint_state(name=["r", "l"], position=[position, position])) == pytest.approx([opening])


def test_named_numbers_follow_the_task():
    decode = decoder("object", "sensor_msgs/msg/JointState")
    np.testing.assert_array_equal(decode(joint_state(name=["goal_y", "goal_x"], position=[2, 1])), [1, 2])
    assert decoder("rewards", "sensor_msgs/msg/JointState").names == ("success", "near")


def test_pose_velocity_wrench_and_truth():
    rotation = exponential(np.array([0.3, -0.2, 0.9]))
    orientation = dict(zip("xyzw", quaternion_of_matrix(rotation).tolist(), strict=True))
    pose = TYPES.make(
        "geometry_msgs/msg/PoseStamped", pose={"position": {"x": 1.0, "y": 2.0, "z": 3.0}, "orientation": orientation}
    )
    decode = decoder("end_effector_pose", "geometry_msgs/msg/PoseStamped")
    np.testing.assert_allclose(decode(pose), [1, 2, 3, *rotation[:, 0], *rotation[:, 1]], atol=1e-12)
    with pytest.raises(SpecError, match="topic: expected a unit quaternion"):
        decode(TYPES.make("geometry_msgs/msg/PoseStamped", pose={"orientation": {"w": 0.0}}))
    six = {"x": 1.0, "y": 2.0, "z": 3.0}, {"x": 4.0, "y": 5.0, "z": 6.0}
    twist = TYPES.make("geometry_msgs/msg/TwistStamped", twist={"linear": six[0], "angular": six[1]})
    wrench = TYPES.make("geometry_msgs/msg/WrenchStamped", wrench={"force": six[0], "torque": six[1]})
    assert decoder("end_effector_velocity", "geometry_msgs/msg/TwistStamped")(twist).tolist() == [1, 2, 3, 4, 5, 6]
    assert decoder("wrist_wrench", "geometry_msgs/msg/WrenchStamped")(wrench).tolist() == [1, 2, 3, 4, 5, 6]
    assert decoder("ready", "std_msgs/msg/Bool")(TYPES.make("std_msgs/msg/Bool", data=True)).tolist() == [1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_images_are_decoded_as_those_of_bags_are(encoding):
    rows = np.random.default_rng(0).integers(0, 256, (12, 16 * 8), np.uint8)
    fields = {"height": 12, "width": 16, "encoding": encoding, "step": 16 * 8, "data": rows.ravel()}
    message = TYPES.make("sensor_msgs/msg/Image", **fields)
    decode = decoder("images/front", "sensor_msgs/msg/Image")
    image = decode_ros_image(message)
    if image.dtype != np.uint8:
        with pytest.raises(SpecError, match=f"topic: expected images of 8 bit, got {image.dtype}"):
            decode(message)
        return
    np.testing.assert_array_equal(decode(message), image)
    message.data = array.array("B", rows.tobytes())  # as rclpy has it
    np.testing.assert_array_equal(decode(message), image)
    with pytest.raises(SpecError, match="unknown encoding 'rgb16'"):
        decode(TYPES.make("sensor_msgs/msg/Image", **{**fields, "encoding": "rgb16"}))
    with pytest.raises(SpecError, match=r"images had the shape \(12, 16, 3\), now they have \(8, 16, 3\)"):
        decode(TYPES.make("sensor_msgs/msg/Image", **{**fields, "height": 8, "data": rows[:8].ravel()}))


def test_images_are_scaled_and_decompressed():
    decode = decoder("images/front", "sensor_msgs/msg/CompressedImage")
    grey = np.full((24, 32, 3), (10, 60, 200), np.uint8)
    _, png = cv2.imencode(".png", cv2.cvtColor(grey, cv2.COLOR_RGB2BGR))
    message = TYPES.make("sensor_msgs/msg/CompressedImage", format="png", data=png.ravel())
    np.testing.assert_array_equal(decode(message), grey[:12, :16])
    message.data = array.array("B", png.tobytes())
    np.testing.assert_array_equal(decode(message), grey[:12, :16])
    with pytest.raises(SpecError, match="3 bytes of format 'png' are not an image"):
        decode(TYPES.make("sensor_msgs/msg/CompressedImage", format="png", data=[1, 2, 3]))
    with pytest.raises(SpecError, match="0 bytes"):
        decode(TYPES.make("sensor_msgs/msg/CompressedImage", format="png"))
    huge = bytearray(png.tobytes())
    huge[16:24] = struct.pack(">II", 60_000, 60_000)  # width and height in the header
    huge[29:33] = struct.pack(">I", zlib.crc32(huge[12:29]))
    with pytest.raises(SpecError, match=f"{len(huge)} bytes of format 'png' are not an image"):
        decode(TYPES.make("sensor_msgs/msg/CompressedImage", format="png", data=huge))
    with pytest.raises(ConfigError, match=r"stacks images of shape \(12, 16, 9\)"):
        source = SourceConfig("topic", "sensor_msgs/msg/Image", "images/front")
        make_decoder(source, {"images/front": ArraySpec((12, 16, 9), "uint8", 0, 255)}, (), ())


def image_of(encoding, height, width):
    kind, channels, _ = ENCODINGS[encoding]
    step = width * channels * np.dtype(kind).itemsize
    fields = {"height": height, "width": width, "encoding": encoding, "step": step}
    return TYPES.make("sensor_msgs/msg/Image", **fields, data=np.zeros(height * step, np.uint8))


@pytest.mark.parametrize(
    ("encoding", "height", "width", "message"),
    [
        ("rgb8", 64, 48, r"shape \(48, 64, 3\), now they have \(64, 48, 3\)"),  # turned
        ("rgb8", 12, 16, r"shape \(48, 64, 3\), now they have \(12, 16, 3\)"),  # the size that is observed
        ("16UC1", 48, 64, "expected images of 8 bit, got uint16"),
        ("32FC1", 48, 64, "expected images of 8 bit, got float32"),
        ("bgra8", 48, 64, ""),
        ("mono8", 48, 64, ""),  # as cameras give it by night
        ("bayer_rggb8", 48, 64, ""),
    ],
)
def test_a_camera_may_change_its_encoding_and_not_its_size(encoding, height, width, message):
    decode = decoder("images/front", "sensor_msgs/msg/Image")
    assert decode(image_of("rgb8", 48, 64)).shape == (12, 16, 3)
    if message:
        with pytest.raises(SpecError, match=f"topic: .*{message}"):
            decode(image_of(encoding, height, width))
    else:
        assert decode(image_of(encoding, height, width)).shape == (12, 16, 3)


def test_mistakes_in_the_configuration_are_named():
    with pytest.raises(ConfigError, match="did you mean 'wrist_wrench'"):
        SourceConfig("topic", "geometry_msgs/msg/WrenchStamped", "wrist_wrensh")
    with pytest.raises(ConfigError, match="type of joints must be sensor_msgs/msg/JointState"):
        SourceConfig("topic", "sensor_msgs/msg/Imu", "joints")
    with pytest.raises(ConfigError, match="'images/side', which the task does not observe"):
        decoder("images/side", "sensor_msgs/msg/Image")
    assert isinstance(decoder("joints", "sensor_msgs/msg/JointState"), NamedNumbers)
    for opened in (0.5, np.nan, np.inf):
        said = rf"open must be a number unlike closed=0\.5, got {opened}"
        with pytest.raises(ConfigError, match=rf"robot\.sources\.\*\.{said}"):
            SourceConfig("topic", "sensor_msgs/msg/JointState", "gripper", closed=0.5, open=opened)
        with pytest.raises(ConfigError, match=rf"robot\.gripper\.{said}"):
            GripperConfig(closed=0.5, open=opened)
        with pytest.raises(ConfigError, match=rf"teleop\.leader\.{said}"):
            LeaderConfig(closed=0.5, open=opened)


def test_what_mobile_bases_measure():
    odometry = TYPES.make("nav_msgs/msg/Odometry", twist={"twist": {"linear": {"x": 1.5, "y": -0.25}}})
    decode = decoder("odometry", "nav_msgs/msg/Odometry")
    assert decode.names == ("velocity_x", "velocity_y")
    np.testing.assert_array_equal(decode(odometry), [1.5, -0.25])

    x, y, z, w = quaternion_of_matrix(exponential(np.array([0.3, 0.0, 0.0])))  # rolled to the right about x
    felt = {"linear_acceleration": {"x": 9.81, "y": 0.0, "z": -4.905}, "angular_velocity": {"x": 1, "y": 2, "z": 3}}
    imu = TYPES.make("sensor_msgs/msg/Imu", orientation={"x": x, "y": y, "z": z, "w": w}, **felt)
    np.testing.assert_allclose(decoder("imu", "sensor_msgs/msg/Imu")(imu), [1, 0, -0.5, 1, 2, 3])
    upward = decoder("orientation", "sensor_msgs/msg/Imu")
    np.testing.assert_allclose(upward(imu), [0, np.sin(0.3), np.cos(0.3)], atol=1e-12)
    unknown = TYPES.make("sensor_msgs/msg/Imu", orientation={"w": 1.0}, orientation_covariance=[-1.0] + [0.0] * 8)
    with pytest.raises(SpecError, match=r"this IMU gives no orientation; name up_ in robot\.unmeasured"):
        upward(unknown)

    kind = "ackermann_msgs/msg/AckermannDriveStamped"
    drive = TYPES.make(kind, drive={"steering_angle": 0.25, "speed": 2.0})
    assert decoder("drive", kind).names == ("steering", "wheel_speed")
    np.testing.assert_array_equal(decoder("drive", kind)(drive), [0.25, 2.0])


def test_scans_are_the_nearest_of_each_sector():
    kind = "sensor_msgs/msg/LaserScan"
    decode = make_decoder(SourceConfig("topic", kind, "scan"), {"scan": ArraySpec((3,))}, (), ())
    ranges = [1.0, 0.5, np.inf, 2.0, -np.inf, 3.0, np.nan, 9.0]
    message = TYPES.make(kind, ranges=ranges, range_min=0.1, range_max=5.0)
    np.testing.assert_allclose(decode(message), [0.5, 0.1, 5.0], atol=1e-7)
    silent = TYPES.make(kind, ranges=[0.0, 0.05, 0.0, -1.0, 5.5, 2.0], range_min=0.1, range_max=5.0)
    np.testing.assert_allclose(decode(silent), [5.0, 5.0, 2.0], err_msg="what is out of range is no obstacle")
    with pytest.raises(SpecError, match="expected 3 ranges or more, got 2"):
        decode(TYPES.make(kind, ranges=[1.0, 2.0], range_min=0.1, range_max=5.0))
