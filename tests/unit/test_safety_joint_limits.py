"""Joint limits against a simulation of every joint by itself, and against the closed form of braking."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import BarrierConfig, JointsConfig, SafetyConfig, SpeedConfig
from robo_rl.safety.joint_limits import JointLimiter, JointLimits
from robo_rl.safety.workspace import EndEffectorAhead

from ..safety_arms import PANDA_ACCELERATION, PANDA_JERK, arm, parts

ONE = np.ones(1)


def limiter(acceleration: float, jerk: float, period: float, velocity: float = 2.0, top: float = 1.0) -> JointLimiter:
    return JointLimiter(-top * ONE, top * ONE, velocity * ONE, acceleration * ONE, jerk * ONE, period)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    acceleration=st.floats(3.0, 30.0),
    build_up=st.floats(0.02, 0.5),
    period=st.sampled_from([0.02, 0.05, 0.1]),
    kind=st.sampled_from(["bang", "uniform", "up"]),
)
def test_no_limit_is_ever_exceeded(seed, acceleration, build_up, period, kind):
    """Joints that do exactly what they are told, told everything: position, velocity, acceleration and jerk hold."""
    jerk = acceleration**2 / (2 * build_up)  # build_up: velocity gained while acceleration builds up [rad/s]
    limits = limiter(acceleration, jerk, period)
    rng = np.random.default_rng(seed)
    position, velocity, last_acceleration = np.zeros(1), np.zeros(1), np.zeros(1)
    for _ in range(150):
        wanted = {"bang": rng.choice([-9.0, 9.0], 1), "uniform": rng.uniform(-3, 3, 1), "up": 9 * ONE}[kind]
        chosen = limits.limit(position, velocity, last_acceleration, wanted)
        new_acceleration = (chosen - velocity) / period
        assert abs(chosen[0]) <= 2.0 * (1 + 1e-6)
        assert abs(new_acceleration[0]) <= acceleration * (1 + 1e-6)
        assert abs(new_acceleration[0] - last_acceleration[0]) / period <= jerk * (1 + 1e-6)
        position, velocity, last_acceleration = position + chosen * period, chosen, new_acceleration
        assert abs(position[0]) <= 1.0 + 1e-5


def test_a_quick_look_says_what_the_full_one_does_or_nothing():
    rng, sure, full = np.random.default_rng(0), 0, 0
    for _ in range(4000):
        acceleration = rng.uniform(3, 30)
        limits = limiter(acceleration, acceleration * rng.uniform(1, 100), rng.choice([0.02, 0.05, 0.1]))
        position, velocity, before = rng.uniform(-1, 1, 1), rng.uniform(-2, 2, 1), rng.uniform(-1, 1, 1) * acceleration
        wanted = velocity + rng.uniform(-1.2, 1.2, 1) * acceleration * limits.period
        nearest = np.clip(wanted, *limits.velocity_range(velocity, before))
        within = limits.stays_inside(position, velocity, nearest[None]).all()
        quick = limits.sure_limit(position, velocity, before, wanted)
        assert quick is None or (within and quick == nearest), (position, velocity, before, wanted, vars(limits))
        sure, full = sure + (quick is not None), full + within
    assert sure > 0.3 * full, "it is sure of a good part"


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_quick_look_is_never_sure_of_what_is_no_number(place, value):
    limits = limiter(acceleration=5.0, jerk=1000.0, period=0.1)
    arguments = [np.zeros(1) for _ in range(4)]
    assert limits.sure_limit(*arguments) == [0.0]
    arguments[place] = np.array([value])
    assert limits.sure_limit(*arguments) is None


def test_braking_distance_is_that_of_constant_deceleration():
    """With jerk out of the way and short periods, the fastest admissible speed at a distance d is sqrt(2 a d)."""
    limits = limiter(acceleration=5.0, jerk=1e9, period=0.001, velocity=10.0)
    for distance in (0.1, 0.4, 0.9):
        position = (1.0 - distance) * ONE
        speeds = np.linspace(0.0, 4.0, 4001)[:, None]
        inside = np.array([limits.stays_inside(position, speed, speed[None])[0, 0] for speed in speeds])
        assert speeds[inside][-1, 0] == pytest.approx(np.sqrt(2 * 5.0 * distance), rel=0.01)


def test_what_is_within_limits_is_left_alone():
    limits = limiter(10.0, 1000.0, 0.1)
    wanted = np.array([0.4])
    np.testing.assert_array_equal(limits.limit(np.zeros(1), np.array([0.2]), np.zeros(1), wanted), wanted)


def test_a_joint_beyond_its_limit_may_come_back_and_not_go_further():
    limits = limiter(50.0, 1e6, 0.1)
    outside = np.array([1.2])
    assert -0.05 < limits.limit(outside, np.zeros(1), np.zeros(1), ONE)[0] <= 0.0
    assert limits.limit(outside, np.zeros(1), np.zeros(1), -ONE)[0] == pytest.approx(-1.0)


@pytest.mark.parametrize("space", ["joint_delta", "joint_position", "end_effector_delta"])
def test_the_executed_actions_are_within_limits(space):
    """What is commanded in a row, computed anew from the actions, holds a real Panda's limits."""
    backend = arm(space, "xyz" if space == "end_effector_delta" else "gripper", joint_scale=0.4)
    robot, kinematics, reader, actions = parts(
        backend, acceleration=PANDA_ACCELERATION, jerk=PANDA_JERK, velocity=backend.config.arm.velocity_limits
    )
    limits = JointLimiter(
        *(np.array(getattr(robot, key)) for key in ("command_lower", "command_upper")),
        *(np.array(getattr(robot, key)) for key in ("velocity", "acceleration", "jerk")),
        period=0.1,
    )
    guard = JointLimits(limits, actions, reader, ways={})
    rng = np.random.default_rng(0)
    observation = dict(backend.reset(0).observation)
    joints = reader.joint_positions(observation)
    velocity, changed = np.zeros(7), 0
    for number in range(200):
        action = rng.choice([-1.0, 1.0], backend.spec.action.shape).astype(np.float32)
        executed, verdict = guard(observation, action, number)
        changed += verdict.changed
        motion = actions.motion(observation, executed).joints
        assert (np.abs(motion / 0.1) <= limits.velocity * (1 + 1e-4)).all()
        if space != "end_effector_delta":  # there a fading motion also changes as the Jacobian does
            assert (np.abs(motion / 0.1 - velocity) / 0.1 <= limits.acceleration * (1 + 1e-4) + 1e-4).all()
        velocity = motion / 0.1
        joints = joints + motion
        assert (joints >= limits.lower - 1e-5).all()
        assert (joints <= limits.upper + 1e-5).all()
        state = observation["state"].copy()
        state[:7] = joints
        kinematics.place(joints)
        state[14:17] = kinematics.data.site("end_effector").xpos
        observation["state"] = state
    assert changed > 50


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("space", ["joint_delta", "joint_position", "end_effector_delta"])
def test_what_is_observed_as_no_number_stops_the_arm(space, barrier):
    """Guards of observations find it before; were there none, the filters would neither pass it nor fail."""
    backend = arm(space, "xyz" if space == "end_effector_delta" else "gripper")
    chain = make_filter_chain(backend.spec, backend.robot, SafetyConfig(barrier=BarrierConfig(enabled=barrier)))
    observation = dict(backend.reset(0).observation)
    action = np.full(backend.spec.action.shape, 0.4, np.float32)
    chain(observation, action, 0)
    for element in ("joint1_position", "joint4_position", "end_effector_y"):
        state = observation["state"].copy()
        state[backend.spec.observation["state"].names.index(element)] = np.nan
        executed, verdict = chain({**observation, "state": state}, action, 1)
        assert verdict.stop and "filter_fault" in verdict.reasons
        if space != "joint_position":  # there to hold still is to go to where the joints are, which nobody knows
            np.testing.assert_array_equal(executed[:-1], 0)
        assert not chain(observation, action, 2)[1].stop, "nothing of it stays"


@pytest.mark.parametrize("space", ["joint_delta", "joint_position"])
def test_the_end_effector_keeps_its_box_and_speeds_while_joints_brake(space):
    """To first order a joint action keeps them; joints that brake each by itself would lead out by centimetres."""
    backend = arm(space, "gripper", joint_scale=0.25)
    robot, _, reader, actions = parts(backend)
    low, high = np.array(robot.workspace_low), np.array(robot.workspace_high)
    config = SafetyConfig(
        joints=JointsConfig(acceleration=PANDA_ACCELERATION, jerk=PANDA_JERK),
        barrier=BarrierConfig(enabled=False),
        speed=SpeedConfig(linear=0.8, angular=2.0),
        violation_budget=0,
    )
    chain = make_filter_chain(backend.spec, robot, config)
    data = mujoco.MjData(robot.model)
    addresses = [robot.model.joint(name).qposadr[0] for name in robot.joints]
    site = robot.model.site(robot.end_effector).id
    observation = dict(backend.reset(0).observation)
    rng, braked = np.random.default_rng(0), 0
    action = np.zeros(8, np.float32)
    joints = reader.joint_positions(observation)
    for number in range(300):
        if number % 15 == 0:
            action = rng.choice([-1.0, 1.0], 8).astype(np.float32)
        executed, verdict = chain(observation, action, number)
        braked += "end_effector" in verdict.reasons
        poses = []
        for posture in (joints, joints + actions.motion(observation, executed).joints):
            data.qpos[addresses] = posture
            mujoco.mj_kinematics(robot.model, data)
            poses.append((data.site_xpos[site].copy(), data.site_xmat[site].reshape(3, 3).copy()))
        (before, turned), (position, rotation) = poses
        assert (position > low - 1e-5).all()
        assert (position < high + 1e-5).all()
        assert np.linalg.norm(position - before) / 0.1 < 0.8 * (1 + 1e-4)
        assert Rotation.from_matrix(rotation @ turned.T).magnitude() / 0.1 < 2.0 * (1 + 1e-4)
        joints = posture
        state = observation["state"].copy()
        state[:7] = joints
        state[14:17] = position
        observation["state"] = state
        joints = reader.joint_positions(observation)
    assert braked > 5


def test_from_outside_the_box_a_way_back_is_open():
    backend = arm("joint_delta", "gripper")
    robot, kinematics, _, _ = parts(backend)
    home = np.array(robot.home)

    def ahead(left: float, speed: float = 1.0) -> EndEffectorAhead:
        return EndEffectorAhead(np.array([-1, -1, -1]), np.array([1, left, 1]), speed, 2.0, 0.1, kinematics)

    left, right = home + 0.05 * np.eye(7)[0], home - 0.05 * np.eye(7)[0]  # the base turns: some 25 mm
    assert not ahead(0.01).keeps(home, left[None])
    assert ahead(0.01).keeps(home, right[None])
    assert not ahead(-0.01).keeps(home, left[None])
    assert ahead(-0.01).keeps(home, right[None])
    assert not ahead(0.01).keeps(home, np.stack([right, home, left])), "the last of them is outside"
    assert ahead(0.1).keeps(home, left[None])
    assert not ahead(0.1, speed=0.1).keeps(home, left[None])
