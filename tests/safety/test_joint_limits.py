"""Limits of joints and end effector at the executed level, for arms that follow every action exactly."""

from dataclasses import replace

import numpy as np
import pytest

from robo_rl.core import ConfigError, SafetyStop
from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import BarrierConfig, SafetyConfig, WorkspaceConfig

from ..rigs.exact_arm import CASES, MARGIN, TOLERANCES, ExactArm, Stream
from ..rigs.safety_arms import arm
from .test_stopping import needs_compiler

SPACES = {
    "joint_delta": ("joint_delta", "xyz", "base"),
    "joint_position": ("joint_position", "xyz", "base"),
    "position": ("end_effector_delta", "xyz", "base"),
    "pose": ("end_effector_delta", "xyz+rotation", "base"),
    "own_frame": ("end_effector_delta", "x+y+yaw", "end_effector"),
}


def violations(exact: ExactArm, actions: int, seed: int, filtered: bool = True) -> set[str]:
    """Return which limits a stream of adversarial actions breaks."""
    chain = exact.chain() if filtered else None
    stream, broken = Stream(exact.size, [seed]), set()
    for step in range(actions):
        if step % 100 == 0:
            exact.reset()
            if chain is not None:
                chain.reset()
        action = stream(Stream.KINDS[step // 100 % len(Stream.KINDS)], step)
        executed = np.nan_to_num(action) if chain is None else chain(exact.observation, action, step)[0]
        loads = exact.execute(np.clip(executed, -1, 1))
        broken |= {name for name, load in loads.items() if load > 1 + TOLERANCES[name]}
    return broken


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("rate", [5, 20, 100, 1000])
@pytest.mark.parametrize("case", CASES)
def test_no_limit_is_broken_at_any_rate(case, rate, space):
    """The published stream has a million actions; see ``benchmarks/bench_safety.py``."""
    limits = "published" if case == "panda" else "default" if space == "joint_position" else "tight"
    exact = ExactArm(case, SPACES[space][0], rate, limits, *SPACES[space][1:])
    assert violations(exact, 200, seed=rate) == set()


@pytest.mark.parametrize("case", CASES)
def test_the_same_actions_break_limits_without_filters(case):
    broken = violations(ExactArm(case, "end_effector_delta", 50.0, "tight"), 600, seed=0, filtered=False)
    assert {"velocity", "acceleration", "jerk", "workspace", "speed"} <= broken


@pytest.mark.parametrize("space", ["joint_delta", "pose"])
def test_slow_motion_passes_unchanged(space):
    exact = ExactArm("panda", SPACES[space][0], 10.0, "default", *SPACES[space][1:])
    chain = exact.chain()
    for step in range(20):
        action = np.full(exact.size, 0.02 * np.sin(step / 3), np.float32)
        executed, verdict = chain(exact.observation, action, step)
        assert executed is action and not verdict.changed
        exact.execute(executed)


def test_motion_goes_on_up_to_a_limit():
    """Filters that stop far from it would be safe, too."""
    exact = ExactArm("panda", "joint_delta", 50.0, "published")
    chain = exact.chain(barrier=BarrierConfig(enabled=False), workspace=WorkspaceConfig(enabled=False))
    action = np.zeros(exact.size, np.float32)
    action[0] = 1.0
    fastest = 0.0
    for step in range(400):
        exact.execute(chain(exact.observation, action, step)[0])
        fastest = max(fastest, float(exact.velocity[0]))
    reached = exact.reader.joint_positions(exact.observation)[0]
    assert exact.upper[0] - 0.06 < reached <= exact.upper[0]
    assert fastest > 0.6 * 2.175, "the end effector's speed allows so much"


@pytest.mark.parametrize("space", SPACES)
def test_an_arm_outside_a_limit_comes_back_and_goes_no_further(space):
    """A compliant arm slips out, and a person may have left it there."""
    exact = ExactArm("six_joints", SPACES[space][0], 20.0, "default", *SPACES[space][1:])
    joints = exact.reader.joint_positions(exact.observation).copy()
    joints[5] = exact.upper[5] + 0.02
    exact.place(joints)
    chain, rng, outside = exact.chain(), np.random.default_rng(0), []
    for step in range(300):
        if step % 10 == 0:
            action = rng.choice([-1.0, 1.0], exact.size).astype(np.float32)
        exact.execute(chain(exact.observation, action, step)[0])
        outside.append(float(exact.reader.joint_positions(exact.observation)[5] - exact.upper[5]))
    assert max(outside) < 0.02 + 1e-5
    if space in ("joint_delta", "joint_position", "pose"):  # others move that joint little
        assert min(outside) < 0, "it came back"


@pytest.mark.parametrize("space", ["joint_position", "joint_delta"])
@pytest.mark.parametrize("rate", [10, 200, 1000])
@pytest.mark.parametrize("case", CASES)
def test_a_joint_outside_its_range_comes_back_within_all_limits(case, rate, space):
    """What is checked is what is executed: no action names a position outside the range, but a motion from there."""
    exact, rng, broken = ExactArm(case, space, rate), np.random.default_rng(rate), set()
    beyond = 0.1 * np.minimum(1.0, exact.upper - exact.lower)
    last = len(exact.lower) - 1
    for joint, side in ((last, 1), (last - 1, -1), (0, 1), (0, -1)):
        exact.reset()
        joints = exact.reader.joint_positions(exact.observation).copy()
        joints[joint] = exact.upper[joint] + beyond[joint] if side > 0 else exact.lower[joint] - beyond[joint]
        exact.place(joints)
        place = exact.reader.position(exact.observation)
        low, high = exact.robot.workspace_low, exact.robot.workspace_high
        if (place < low).any() or (place > high).any() or exact.smallest_distance(joints) < MARGIN:
            continue  # another limit is broken from the beginning
        chain, furthest = exact.chain(), 0.0
        for step in range(60):
            if step % 10 == 0:
                action = rng.choice([-1.0, 1.0, 0.2], exact.size).astype(np.float32)
                action[joint] = side if step < 20 else -side  # outwards, then back
            loads = exact.execute(chain(exact.observation, action, step)[0])
            broken |= {name for name, load in loads.items() if load > 1 + TOLERANCES[name]} - {"position"}
            reached = exact.reader.joint_positions(exact.observation)[joint]
            furthest = max(furthest, side * (reached - joints[joint]))
        assert furthest < 1e-5, "it went further out"
        assert side * (reached - joints[joint]) < 0, "it came back"
    assert broken == set()


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("space", ["joint_delta", "joint_position", "end_effector_delta"])
def test_what_is_observed_as_no_number_stops_the_arm(space, barrier):
    """Guards of observations find it before; were there none, the filters would neither pass it nor fail."""
    backend = arm(space, "xyz" if space == "end_effector_delta" else "gripper")
    chain = make_filter_chain(backend.spec, backend.robot, SafetyConfig(barrier=BarrierConfig(enabled=barrier)))
    observation = dict(backend.reset(0).observation)
    action = np.full(backend.spec.action.shape, 0.4, np.float32)
    last, _ = chain(observation, action, 0)
    for element in ("joint1_position", "joint4_position", "end_effector_y"):
        state = observation["state"].copy()
        state[backend.spec.observation["state"].names.index(element)] = np.nan
        executed, verdict = chain({**observation, "state": state}, action, 1)
        assert verdict.stop and "filter_fault" in verdict.reasons
        if space != "joint_position" or element == "end_effector_y":
            assert np.isfinite(executed).all()
        if space != "joint_position":
            np.testing.assert_array_equal(executed[:-1], 0)
        elif element != "end_effector_y":  # nobody knows where the joints are: the last target is
            np.testing.assert_array_equal(executed, last)
        last, verdict = chain(observation, action, 2)
        assert not verdict.stop, "nothing of it stays"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_action_is_made_up_where_nothing_can_be_held(value):
    """The first observation of an episode has a joint that is no number, and actions are positions."""
    backend = arm("joint_position", "gripper")
    chain = make_filter_chain(backend.spec, backend.robot, SafetyConfig())
    observation = dict(backend.reset(0).observation)
    chain(observation, np.zeros(backend.spec.action.shape, np.float32), 0)
    chain.reset()
    observation["state"] = observation["state"].copy()
    observation["state"][2] = value
    for action in (0.4, np.nan):
        with pytest.raises(SafetyStop, match="says of no joint where it is"):
            chain(observation, np.full(backend.spec.action.shape, action, np.float32), 1)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5, 1e12, 3e38])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("element", ["end_effector_y", "joint4_position", "joint2_velocity", "end_effector_r21"])
def test_absurd_observations_take_no_longer(space, size, element):
    """What is computed is bounded in steps: the planner's are, whatever is observed."""
    exact = ExactArm("panda", SPACES[space][0], 1000.0, "tight" if space != "joint_position" else "published")
    chain = exact.chain()
    action = np.full(exact.size, 0.3, np.float32)
    chain(exact.observation, action, 0)
    state = exact.observation["state"].copy()
    state[exact.spec.observation["state"].names.index(element)] = size
    executed, _ = chain({**exact.observation, "state": state}, action, 1)
    assert np.isfinite(executed).all() and (np.abs(executed) <= 1).all()


def test_limits_that_rounding_would_break_are_refused():
    """At 1 kHz the float32 of a joint position is worth 300 rad/s^3."""
    exact = ExactArm("panda", "joint_position", 1000.0, "tight")
    with pytest.raises(ConfigError, match=r"safety\.joints\.jerk: joint 1 may have 60, but at 1000 Hz .*=joint_delta"):
        exact.chain()
    ExactArm("panda", "joint_delta", 1000.0, "tight").chain()
    ExactArm("panda", "joint_position", 50.0, "tight").chain()


def test_clearances_are_kept_in_the_stop_as_well():
    """An arm that drives at an obstacle keeps the margin without the filter that only looks at the next step."""
    exact = ExactArm("six_joints", "joint_delta", 50.0, "tight")
    chain = exact.chain(barrier=BarrierConfig(margin=MARGIN, approach=1.0))
    rng, nearest = np.random.default_rng(3), np.inf
    for step in range(1500):
        if step % 50 == 0:
            held = rng.choice([-1.0, 1.0], exact.size).astype(np.float32)
        exact.execute(chain(exact.observation, held, step)[0])
        nearest = min(nearest, exact.smallest_distance(exact.reader.joint_positions(exact.observation)))
    assert MARGIN - 1e-4 < nearest < 2 * MARGIN, "it went there, and stopped"


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_compiler), False])
@pytest.mark.parametrize(
    ("apart", "speed", "stops"), [(0.04, 5.0, True), (0.06, -5.0, True), (0.06, 5.0, False), (0.3, -5.0, False)]
)
def test_an_arm_without_a_possible_stop_is_stopped_near_an_obstacle_alone(apart, speed, stops, native, monkeypatch):
    """It was pushed up or down: it is so fast that not even a stop is within the limits of its joints."""
    x, y, z = ExactArm("six_joints").kinematics.pose(np.array(CASES["six_joints"].arm["home"]))[0]
    changed = replace(CASES["six_joints"], keep_out=(x, y, z + apart, 0.02, 0.02, 0.02))
    monkeypatch.setitem(CASES, "six_joints", changed)
    exact = ExactArm("six_joints", "joint_delta", 50.0)
    chain, action = exact.chain(), np.full(exact.size, 0.1, np.float32)
    if not native:
        chain._together = None
    chain(exact.observation, action, 0)
    chain._filters[-1].state[exact.size + 1] = speed
    executed, verdict = chain(exact.observation, action, 1)
    assert verdict.stop == stops
    assert verdict.stop_reason == ("barrier_stop" if stops else None)
    assert ("a stop would break a limit of the joints at once" in verdict.message) == stops
    assert executed.any() != stops, "an arm that is stopped holds still"
