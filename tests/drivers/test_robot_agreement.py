"""Joints and pose of a robot that contradict each other, and what is commanded then."""

import numpy as np
import pytest

from robo_rl.core import ArmPose, SafetyStop, matrix_of_quaternion, matrix_of_vector, quaternion_of_matrix
from robo_rl.drivers.robot.agreement import MismatchError, PoseCorrection

from .test_robot_backend import POSES, UP, Driver, node, speaking_robot  # noqa: F401 - a fixture

POSE = "cartesian_pose_broadcaster/pose"
REST = np.zeros(2)


def pose(shift=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)) -> ArmPose:
    return ArmPose(np.array([0.5, 0.0, 0.4]) + shift, matrix_of_vector(np.array(turn)))


def correction(shift=(0.0, 0.0, 0.0), turn=(0.0, 0.0, 0.0)) -> PoseCorrection:
    made = PoseCorrection(tolerance=0.05, skew=0.1, period=0.1)
    made.begin(pose(), pose(shift, turn))
    return made


@pytest.mark.parametrize(
    ("shift", "turn", "speeds", "message"),
    [
        ((0.03, 0, 0), (0, 0, 0), REST, r"jumped by 0\.030 m and 0\.000 rad"),
        ((0, -0.2, 0), (0, 0, 0), REST, r"0\.2 m and 0\.000 rad from where the measured joints have it; 0\.050 m"),
        ((0, 0, 0), (0, 0, 0.09), REST, r"jumped by 0\.000 m and 0\.090 rad"),
        ((0, 0, 3e38), (0, 0, 0), REST, r"3e\+38 m"),
        ((0, 0, 0), (3.0, 0, 0), REST, r"3\.000 rad from"),
        ((0.03, 0, 0), (0, 0, 0), np.array([0.2, 0.0]), ""),
        ((0, 0, 0), (0, 0, 0.09), np.array([0.0, 1.0]), ""),
        ((0.01, 0, 0), (0, 0.03, 0), REST, ""),
    ],
)
def test_a_difference_that_calibration_does_not_explain_is_refused(shift, turn, speeds, message):
    made = correction()
    if message:
        with pytest.raises(MismatchError, match=message):
            made.update(pose(), pose(shift, turn), speeds)
    else:
        made.update(pose(), pose(shift, turn), speeds)


def test_the_correction_begins_with_the_difference_and_follows_it_slowly():
    made = correction((0.02, 0, 0), (0, 0, 0.05))
    told = made.apply(pose((0, 0, 0.01)))
    np.testing.assert_allclose(told.position, [0.52, 0, 0.41])
    np.testing.assert_allclose(told.rotation, matrix_of_vector(np.array([0, 0, 0.05])), atol=1e-12)
    places = []
    for _ in range(5):
        made.update(pose(), pose((0.02, 0.019, 0), (0, 0.04, 0.05)), REST)
        places.append(made.apply(pose()).position[1])
    np.testing.assert_allclose(places, [0.005, 0.01, 0.015, 0.019, 0.019], atol=1e-12)
    np.testing.assert_allclose(made.apply(pose()).rotation, matrix_of_vector(np.array([0, 0.04, 0.05])), atol=1e-12)


def test_a_pose_that_creeps_away_is_refused_at_the_tolerance():
    made = correction()
    with pytest.raises(MismatchError, match=r"0\.055 m and .* \(robot\.pose_tolerance\)"):
        for number in range(1, 100):
            made.update(pose(), pose((0.011 * number, 0, 0)), REST)


def test_a_rotation_vector_becomes_a_rotation_and_q_is_minus_q():
    rng = np.random.default_rng(0)
    for _ in range(20):
        vector = rng.uniform(-1.7, 1.7, 3)
        quaternion = quaternion_of_matrix(matrix_of_vector(vector))
        np.testing.assert_allclose(matrix_of_quaternion(quaternion), matrix_of_quaternion(-quaternion), atol=1e-12)
        np.testing.assert_allclose(matrix_of_quaternion(quaternion), matrix_of_vector(vector), atol=1e-12)


@pytest.mark.parametrize("jump", [0.05, 0.1, 0.2, 1e30])
@pytest.mark.parametrize("safety", [True, False])
def test_a_jump_of_the_pose_topic_commands_nothing(node, jump, safety):  # noqa: F811
    backend, clock = speaking_robot(node)
    backend.reset()
    if not safety:  # what the driver itself does, without guards
        backend = backend.inner
    backend.step(UP * 0)
    there = node.published[POSES][-1].pose.position
    before = np.array([there.x, there.y, there.z])
    clock.robot.published[POSE][-1].pose.position.y += jump
    with pytest.raises(SafetyStop, match="end effector") as caught:
        for _ in range(2):
            backend.step(UP * 0)
    assert caught.value.reason in ("observation_jump", "observation_mismatch")
    for message in node.published[POSES]:
        told = message.pose.position
        assert np.abs(np.array([told.x, told.y, told.z]) - before).max() < 0.006


def test_a_joint_that_jumps_commands_nothing(node, capsys):  # noqa: F811
    options = "task.controller.action_space=joint_delta", "robot.command.kind=joint_positions"
    topic = "forward_position_controller/commands"
    backend, clock = speaking_robot(node, *options, f"robot.command.topic={topic}")
    backend.reset()
    still = np.zeros(backend.spec.action.shape, np.float32)
    backend.step(still)
    before = np.array(node.published[topic][-1].data)
    clock.robot.published["joint_states"][-1].position[1] -= 0.9
    with pytest.raises(SafetyStop) as caught:
        for _ in range(2):
            backend.step(still)
    assert caught.value.reason in ("observation_jump", "observation_mismatch")
    assert "contradicts itself" in capsys.readouterr().out
    assert np.abs(np.array([message.data for message in node.published[topic]]) - before).max() < 1e-6


def test_a_quaternion_of_the_other_sign_is_the_same_pose(node):  # noqa: F811
    backend, clock = speaking_robot(node)
    backend.reset()
    for number in range(4):
        turn = clock.robot.published[POSE][-1].pose.orientation
        turn.x, turn.y, turn.z, turn.w = -turn.x, -turn.y, -turn.z, -turn.w
        assert not backend.step(UP * 0).verdict.stop, number
