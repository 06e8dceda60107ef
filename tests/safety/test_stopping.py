"""Stop trajectories: the rule itself, its two implementations, and the invariant that it keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from robo_rl.core import ConfigError
from robo_rl.safety.compose import _stop_problem
from robo_rl.safety.config import JointsConfig, SafetyConfig, SpeedConfig
from robo_rl.safety.joint_limits import JointLimits
from robo_rl.safety.native import NativeStopPlanner, available
from robo_rl.safety.reference import PythonStopPlanner
from robo_rl.safety.serial_chain import serial_chain
from robo_rl.safety.stopping import StopProblem, slower, strongest_deceleration

from ..rigs.exact_arm import CASES, MARGIN, TOLERANCES, ArmCase, ExactArm, Stream

needs_compiler = pytest.mark.skipif(not available()[0], reason="no C++ compiler here")
FRAMES = (("xyz", "base"), ("xyz+rotation", "base"), ("x+y+yaw", "end_effector"))
SPACES = (
    ("joint_delta", "xyz", "base"),
    ("joint_position", "xyz", "base"),
    *(("end_effector_delta", *frame) for frame in FRAMES),
)
TIP = np.array([0.05, 0.0, 0.1])
"""Position of the tip of random arms in their last body [m]."""
TIP_RADIUS = 0.02
"""Radius of the sphere there [m]."""


@given(speed=st.floats(0, 10), jerk=st.floats(1, 1e5), rate=st.floats(5, 1000))
def test_the_strongest_deceleration_is_eased_out_exactly(speed, jerk, rate):
    period = 1 / rate
    strength = strongest_deceleration(speed, jerk, period)
    taken, decelerations = 0.0, []
    while strength > 0:
        decelerations.append(strength)
        taken += strength * period
        strength -= jerk * period
    assert taken == pytest.approx(speed, rel=1e-9, abs=1e-12)
    assert not decelerations or decelerations[-1] <= jerk * period * (1 + 1e-9)


@given(
    speed=st.floats(-4, 4),
    share=st.floats(-1, 1),
    limit=st.floats(0.5, 60),
    jerk=st.floats(5, 1e5),
    rate=st.sampled_from([5, 10, 50, 200, 1000]),
)
def test_a_joint_that_stops_comes_to_rest_within_its_limits(speed, share, limit, jerk, rate):
    period, velocity, acceleration = 1 / rate, speed, share * min(limit, jerk / rate)
    for _ in range(int(rate * (4 / limit + 2 * limit / jerk) * 4) + 60):
        reached = slower(velocity, acceleration, limit, jerk, period)
        change = (reached - velocity) / period
        assert abs(change - acceleration) <= jerk * period * (1 + 1e-9)
        assert abs(change) <= max(limit, abs(acceleration)) * (1 + 1e-9)
        velocity, acceleration = reached, change
    assert velocity == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_the_chain_is_that_of_the_model(case):
    exact = ExactArm(case)
    chain, rng = serial_chain(exact.robot), np.random.default_rng(0)
    for _ in range(20):
        joints = rng.uniform(exact.lower, exact.upper)
        position, rotation, jacobian = chain.forward(joints)
        expected = exact.kinematics.pose(joints)
        np.testing.assert_allclose(position, expected[0], atol=1e-10)
        np.testing.assert_allclose(rotation.ravel(), expected[1], atol=1e-10)
        np.testing.assert_allclose(jacobian, exact.kinematics.jacobian(joints), atol=1e-10)


def stop_problem(exact: ExactArm) -> StopProblem:
    config = SafetyConfig(joints=exact.limits, speed=exact.config_speed)
    return replace(_stop_problem(config, exact.robot, exact.actions), stride=1)


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_the_quick_look_at_singularity_is_never_wrong_and_mostly_enough(case):
    exact, rng = ExactArm(case), np.random.default_rng(0)
    planner = NativeStopPlanner(stop_problem(exact))
    for _ in range(200):
        joints = rng.uniform(exact.lower, exact.upper)
        condition = np.linalg.cond(exact.kinematics.jacobian(joints))
        assert not planner.is_surely_regular(joints, 0.999 * condition)
        assert planner.is_surely_regular(joints, 6**0.25 * 1.001 * condition)
    assert not planner.is_surely_regular(np.full(len(joints), np.nan), 1e6)


@needs_compiler
@pytest.mark.parametrize("rate", [10, 100])
@pytest.mark.parametrize("space", ["joint_delta", *FRAMES])
@pytest.mark.parametrize("case", CASES)
def test_both_planners_say_the_same(case, space, rate):
    name, axes, frame = ("joint_delta", "xyz", "base") if space == "joint_delta" else ("end_effector_delta", *space)
    exact = ExactArm(case, name, rate, "tight", axes, frame)
    problem = stop_problem(exact)
    native, python = NativeStopPlanner(problem), PythonStopPlanner(problem)
    guard = JointLimits(native, exact.actions, exact.reader)
    stream, outcomes = Stream(exact.size, [1]), []
    for step in range(60):
        action = stream("held" if step % 2 else "uniform", step)
        joints, measured = exact.reader.joint_positions(exact.observation), guard._measured(exact.observation)
        guard.state[: len(joints)] = joints
        wanted = exact.actions.controls(exact.observation, action)
        if step % 3 == 0:
            for planned, expected in zip(
                native.nearest(guard.state, measured, wanted)[:3],
                python.nearest(guard.state, measured, wanted)[:3],
                strict=True,
            ):
                np.testing.assert_allclose(planned, expected, rtol=1e-6, atol=1e-7)
            plan, reference = (each.plan(guard.state, measured, wanted) for each in (native, python))
            assert plan.outcome == reference.outcome
            np.testing.assert_allclose(plan.path, reference.path, atol=1e-9)
            np.testing.assert_allclose(plan.travel, reference.travel, atol=1e-9)
            np.testing.assert_allclose(plan.state, reference.state, rtol=1e-6, atol=1e-6)
            outcomes.append(plan.outcome)
        exact.execute(guard(exact.observation, action, step)[0])
    assert any(outcomes), "limits were in the way"


def follow_the_stop(exact: ExactArm, guard: JointLimits) -> set[str]:
    """Execute the stop that ``guard`` would do now, to its end; return which limits it breaks."""
    planner, broken = guard._planner, set()
    state = guard.state.copy()
    n = len(exact.lower)
    for _ in range(stop_problem(exact).steps):
        observation = exact.observation
        state[:n] = exact.reader.joint_positions(observation)
        found = planner.nearest(state, guard._measured(observation), np.zeros(len(planner.fine)))
        plan = planner.plan(state, guard._measured(observation), found.stop)
        template = np.zeros(exact.size, np.float32)
        action = exact.actions.with_controls(observation, template, found.stop)
        loads = exact.execute(action)
        broken |= {name for name, load in loads.items() if load > 1 + TOLERANCES[name]}
        state = plan.state
        if not state[n : 2 * n].any():
            return broken
    return broken | {"no rest"}


@st.composite
def arms(draw: st.DrawFn) -> dict:
    """Random serial arms: joints, axes, lengths, ranges, limits, rates, action spaces, and a volume near the tip."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(3, 7))
    slides = rng.random(count) < 0.15
    rate = draw(st.sampled_from([5, 10, 30, 100, 200, 500, 1000]))
    velocity = rng.uniform(0.5, 3, count)
    acceleration = velocity * rng.uniform(2, 15, count)
    offsets = rng.uniform(-0.05, 0.25, (count, 3))
    away, half = rng.standard_normal(3), rng.uniform(0.02, 0.06, 3)
    gap = rng.uniform(1.6 * MARGIN, 0.025)
    centre = offsets.sum(axis=0) + TIP + away / np.linalg.norm(away) * (TIP_RADIUS + gap + np.linalg.norm(half))
    return {
        "axes": [np.eye(3)[rng.integers(3)] if rng.random() < 0.7 else rng.standard_normal(3) for _ in range(count)],
        "slides": slides,
        "offsets": offsets,
        "volume": (*centre, *half),
        "ranges": np.where(slides[:, None], [[-0.2, 0.2]], [[-2.5, 2.5]]) * rng.uniform(0.4, 1, (count, 1)),
        "velocity": velocity,
        "acceleration": acceleration,
        "jerk": acceleration * rng.uniform(3, 300, count),
        "rate": rate,
        "space": draw(st.sampled_from(SPACES)),
        "speed": rng.uniform([0.2, 0.5], [1.5, 4.0]),
        "seed": int(rng.integers(2**31)),
        "actions": draw(st.integers(1, 40)),
    }


def write_arm(arm: dict, file: Path) -> ArmCase:
    """Write a random arm as MJCF, and return how it is simulated."""
    bodies, closing, tip = "", "", " ".join(map(str, TIP))
    for number, (axis, slides, offset, limits) in enumerate(
        zip(arm["axes"], arm["slides"], arm["offsets"], arm["ranges"], strict=True)
    ):
        kind = "slide" if slides else "hinge"
        numbers = {"pos": offset, "axis": axis, "range": limits}
        text = {key: " ".join(f"{value:.9g}" for value in values) for key, values in numbers.items()}
        bodies += (
            f'<body pos="{text["pos"]}"><joint name="j{number}" type="{kind}" axis="{text["axis"]}" '
            f'range="{text["range"]}"/><geom size="0.02" mass="0.5" contype="0" conaffinity="0"/>'
        )
        closing += "</body>"
    file.write_text(
        f'<mujoco><compiler angle="radian" autolimits="true"/><worldbody><body name="base">{bodies}'
        f'<site name="tip" pos="{tip}"/><geom pos="{tip}" size="{TIP_RADIUS}" mass="0.1"/>{closing}</body></worldbody>'
        "</mujoco>"
    )
    count = len(arm["axes"])
    return ArmCase(
        arm={
            "model": str(file),
            "joints": tuple(f"j{number}" for number in range(count)),
            "end_effector": "tip",
            "home": (0.0,) * count,
            "torque_limits": (50.0,) * count,
            "velocity_limits": tuple(map(float, arm["velocity"])),
            "gripper_actuator": None,
            "gripper_joints": (),
            "wrist_sensor_site": None,
        },
        low=(-0.3, -0.3, -0.3),
        high=(2.0, 2.0, 2.0),
        keep_out=tuple(map(float, arm["volume"])),
        limits={
            "random": JointsConfig(
                **{key: tuple(map(float, arm[key])) for key in ("velocity", "acceleration", "jerk")}, margin=0.0
            )
        },
    )


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(arm=arms())
def test_from_every_state_that_is_let_happen_the_arm_can_stop(arm, tmp_path, monkeypatch):
    """The invariant: the stop that would be done next breaks no limit, to its end, and nothing broke one before."""
    monkeypatch.setitem(CASES, "random", write_arm(arm, tmp_path / "arm.xml"))
    speed = SpeedConfig(linear=float(arm["speed"][0]), angular=float(arm["speed"][1]))
    exact = ExactArm("random", arm["space"][0], arm["rate"], "random", *arm["space"][1:], speed=speed)
    assume(exact.clearance > 1.5 * MARGIN)
    try:
        chain = exact.chain()
    except ConfigError as error:  # joint positions at a high rate, with a tight limit on jerk
        assume("the rounding of float32 actions alone" not in str(error))
        raise
    guard = chain._filters[-1]
    stream, kind = Stream(exact.size, [arm["seed"]]), Stream.KINDS[arm["seed"] % len(Stream.KINDS)]
    for step in range(arm["actions"]):
        loads = exact.execute(chain(exact.observation, stream(kind, step), step)[0])
        assert {name for name, load in loads.items() if load > 1 + TOLERANCES[name]} == set()
    assert follow_the_stop(exact, guard) == set()
