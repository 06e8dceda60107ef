"""The way home of a robot's end effector along axes that actions do not move."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from robo_rl.core import vector_of_matrix
from robo_rl.safety import SafetyConfig
from robo_rl.safety.kinematics import Kinematics
from robo_rl.sim import make_backend
from robo_rl.sim.arm_model import ArmModel
from robo_rl.sim.config import ArmConfig, ControllerConfig
from robo_rl.sim.way_home import PARTS, SHARE, WayLimits, schedule

from ..rigs.exact_arm import CASES


def moved(model: ArmModel, joints: np.ndarray, displacement: list[float]) -> np.ndarray:
    """Return the joint positions after a small displacement (6) of the end effector."""
    columns = [np.concatenate(model.velocity(joints, velocities)) for velocities in np.eye(len(joints))]
    return joints + np.linalg.pinv(np.transpose(columns)) @ displacement


AWAY = {
    "panda": [0.0, 0.0, 0.3, 0.0, 0.4, 0.3, 0.0],
    "six_joints": [0.1, 0.1, -0.2, 0.3, 0.3, 0.5],
    "five_joints": [0.03, 0.2, 0.2, -0.2, 0.4],
}
"""How far joints are from home at the beginning [rad or m]."""


def loads_on_the_way_home(
    case: str, rate: float, axes: str, frame: str, away: Sequence[float], **limits: float
) -> tuple[np.ndarray, float, float]:
    """Return the largest share of each limit that a robot uses, what is left [m, rad], and the worst condition number.

    The robot follows exactly from a posture ``away`` from home. The limits are those of the joints' velocity,
    acceleration and jerk, and of the end effector's two speeds.
    """
    controller = ControllerConfig(action_axes=axes, action_frame=frame, rate=rate * math.ceil(500 / rate))
    arm = ArmConfig(home_noise=0.0, **CASES[case].arm, **limits)
    backend = make_backend("reach", control_rate=rate, arm=arm, controller=controller)
    model, robot, nothing = backend.as_model(), backend.robot, np.zeros(backend.spec.action.shape[0], np.float32)
    kinematics, joints = Kinematics(robot), np.add(robot.home, away)
    model.begin(joints)
    last = model.pose(joints)  # an arm of five joints does not reach every target
    used, condition, velocity, acceleration = np.zeros(5), 0.0, np.zeros(len(joints)), np.zeros(len(joints))
    most = robot.velocity, robot.acceleration, robot.jerk
    for _ in range(round(8 * rate)):
        pose, target = model.pose(joints), model.target(joints, nothing).pose
        shift, turn = target.position - pose.position, vector_of_matrix(target.rotation @ pose.rotation.T)
        condition = max(condition, kinematics.condition(joints))
        motion = kinematics.joint_motion(joints, np.concatenate([shift, turn]))
        changed = (motion * rate - velocity) * rate
        states = motion * rate, changed, (changed - acceleration) * rate
        shift, turn = target.position - last.position, vector_of_matrix(target.rotation @ last.rotation.T)
        velocity, acceleration, joints, last = motion * rate, changed, joints + motion, target
        used[:3] = np.maximum(used[:3], [np.abs(np.divide(*each)).max() for each in zip(states, most, strict=True)])
        speeds = np.linalg.norm(shift) * rate / robot.linear_speed, np.linalg.norm(turn) * rate / robot.angular_speed
        used[3:] = np.maximum(used[3:], speeds)
    return used, max(np.linalg.norm(shift), np.linalg.norm(turn)), condition


WAYS = [
    (5.0, "xyz", "base", {}),
    (10.0, "x+yaw", "base", {"command_jerk": 40.0}),
    (50.0, "xyz", "base", {"command_acceleration": 6.0, "command_jerk": 40.0}),
    (50.0, "x+yaw", "base", {"command_velocity": 0.5}),
    (200.0, "xyz", "base", {"rotation_speed_limit": 0.5}),
    (200.0, "x+y+yaw", "end_effector", {"command_acceleration": 2.0}),
]
"""Control rate [Hz], axes and frame of actions, and limits of the arm."""


@pytest.mark.parametrize("case", AWAY)
@pytest.mark.parametrize(("rate", "axes", "frame", "limits"), WAYS)
def test_targets_lead_home_within_a_share_of_all_limits(case, rate, axes, frame, limits):
    """A target at home, or one that moves at full speed at once, is a jolt of many times what joints may do."""
    used, rest, _ = loads_on_the_way_home(case, rate, axes, frame, AWAY[case], **limits)
    assert (used <= SHARE).all(), used
    assert used.max() > SHARE / 4, "it does not dawdle"
    assert rest < 1e-3, "it arrived"


@pytest.mark.parametrize("case", AWAY)
def test_the_way_home_from_anywhere_keeps_to_its_share(case):
    """Except near postures in which the safety filters would not have let it move at all."""
    rng, tried = np.random.default_rng(5), 0
    for rate, axes, frame, limits in WAYS * 2:
        away = rng.uniform(-0.4, 0.4, len(AWAY[case]))
        used, _, condition = loads_on_the_way_home(case, rate, axes, frame, away, **limits)
        tried += condition <= SafetyConfig().singularity.stop
        assert condition > SafetyConfig().singularity.stop or (used <= SHARE).all(), (rate, axes, frame, away, used)
    assert tried > len(WAYS)


@pytest.mark.parametrize("way", [[0.0, 0, 0, 0, 0, 0.4], [0.2, -0.1, 0, 0, 0, 0], [0.01, 0, 0.02, 0.3, 0, -0.1]])
@pytest.mark.parametrize("period", [0.2, 0.02, 0.001])
def test_the_progress_of_a_way_home_begins_and_ends_at_rest(way, period):
    motion = np.linspace(0.5, 0.7, PARTS)[:, None] * [1.0, -0.4]
    limits = WayLimits(np.full(2, 2.0), np.full(2, 8.0), np.full(2, 60.0), np.array([0.5, 2.0]), period)
    left = schedule(np.linalg.norm(np.reshape(way, (2, 3)), axis=1), motion, limits)
    assert left[-1] == 0 and (left >= 0).all() and (left < 1).all()
    progress = np.concatenate([np.zeros(3), 1 - np.cumprod(left), np.ones(3)])
    for order, most in ((1, 2.0), (2, 8.0), (3, 60.0)):
        assert np.abs(np.diff(progress, order)).max() * 0.7 / period**order <= SHARE * most * 1.001


@pytest.mark.parametrize("away", [0.0, 0.02])
def test_actions_that_turn_the_end_effector_in_its_own_frame_pull_targets_no_further_at_once(away):
    """What was an axis of actions before the turn is partly one that they do not move, far from home."""
    controller = ControllerConfig(action_axes="x+pitch", action_frame="end_effector")
    backend = make_backend("reach", control_rate=20, arm=ArmConfig(home_noise=0.0), controller=controller)
    model, robot = backend.as_model(), backend.robot
    joints = moved(model, np.array(robot.home), [0.0, away, 0.0, 0.0, 0.0, 0.0])
    model.begin(joints)
    pulls = []
    for action in [[1.0, 0.0]] * 3 + [[0.05, 1.0]] * 6 + [[0.0, 0.0]] * 60:
        pose = model.pose(joints)
        target = model.target(joints, np.array([*action, -1.0], np.float32)[: len(backend.spec.action.names)]).pose
        shift = pose.rotation @ [controller.translation_scale * action[0], 0.0, 0.0]
        pulls.append(np.linalg.norm(target.position - pose.position - shift))
        for _ in range(3):  # the robot follows exactly
            pose = model.pose(joints)
            turn = vector_of_matrix(target.rotation @ pose.rotation.T)
            joints = moved(model, joints, [*(target.position - pose.position), *turn])
    assert max(pulls) <= 1.05 * SHARE * robot.linear_speed / 20
    assert pulls[-1] < 1e-5, "it arrived"


@pytest.mark.parametrize("size", [0.0, 0.1])
def test_a_load_does_not_pull_the_arm_away(size):
    """The robot sags below its targets by several times as much as a target may lead home, also while it acts."""
    controller = ControllerConfig(action_space="end_effector_delta", action_axes="x+yaw")
    backend = make_backend("reach", control_rate=500.0, arm=ArmConfig(home_noise=0.0), controller=controller)
    model, home = backend.as_model(), np.array(backend.robot.home)
    joints = moved(model, home, [0, 0, 0.03, 0, 0, 0])
    model.begin(joints)
    sag = 5 * backend.robot.linear_speed / 500
    for step in range(1500):
        action = np.zeros(backend.spec.action.shape[0], np.float32)
        action[0] = size if step % 2 else -size
        pose, target = model.pose(joints), model.target(joints, action).pose
        turn = vector_of_matrix(target.rotation @ pose.rotation.T)
        joints = moved(model, joints, [*(target.position - [0, 0, sag] - pose.position), *turn])
    assert model.pose(joints).position[2] == pytest.approx(model.pose(home).position[2] - sag, abs=2e-3)
