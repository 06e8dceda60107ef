"""The way back of an end effector that is outside the box of the robot's own controller."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robo_rl.safety.actions import _cut_off
from robo_rl.safety.joint_limits import JointLimits
from robo_rl.safety.native import NativeStopPlanner
from robo_rl.safety.reference import PythonStopPlanner
from robo_rl.sim import make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig

from ..rigs.exact_arm import CASES, TOLERANCES, ExactArm, Stream
from ..rigs.safety_arms import arm, parts
from .test_joint_limits import SPACES
from .test_stopping import needs_compiler, stop_problem

DISTANCE = 0.02
SIDES = {
    "front": ((0, 1),),
    "back": ((0, -1),),
    "left": ((1, 1),),
    "below": ((2, -1),),
    "corner": ((0, -1), (1, 1), (2, 1)),
}
"""Sides of the box that the end effector is beyond: axis and direction."""


def box_beside(position: np.ndarray, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a box that ``position`` (3,) is outside of, by :data:`DISTANCE`."""
    low, high = position - 0.25, position + 0.25
    for axis, direction in SIDES[side]:
        (high if direction > 0 else low)[axis] = position[axis] - direction * DISTANCE
    return low, high


def outside(exact: ExactArm) -> np.ndarray:
    """Return how far the end effector is outside its box along each axis (3,) [m]."""
    position = exact.reader.position(exact.observation)
    beyond = np.maximum(exact.robot.workspace_low - position, position - exact.robot.workspace_high)
    return np.maximum(beyond, 0.0)


@pytest.fixture
def beside(monkeypatch):
    """Make an arm whose end effector is outside its box at home."""

    def make(case: str, side: str, *arguments) -> ExactArm:
        home = ExactArm(case)
        low, high = box_beside(home.reader.position(home.observation), side)
        changed = replace(CASES[case], low=tuple(map(float, low)), high=tuple(map(float, high)), keep_out=())
        monkeypatch.setitem(CASES, case, changed)
        return ExactArm(case, *arguments)

    return make


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("rate", [5, 20, 200, 1000])
@pytest.mark.parametrize("case", CASES)
def test_the_way_back_keeps_all_other_limits(case, rate, space, beside):
    """Neither what is observed outside nor an action leads to more than the limits allow, and never further out."""
    limits = "default" if space == "joint_position" else "published" if case == "panda" else "tight"
    side = list(SIDES)[(rate + len(space)) % len(SIDES)]
    exact = beside(case, side, SPACES[space][0], rate, limits, *SPACES[space][1:])
    chain, stream, first, broken = exact.chain(), Stream(exact.size, [rate]), outside(exact), set()
    for step in range(120):
        loads = exact.execute(chain(exact.observation, stream(Stream.KINDS[step // 24], step), step)[0])
        broken |= {name for name, load in loads.items() if load > 1 + TOLERANCES[name]} - {"workspace"}
        assert (outside(exact) <= first + 1e-5).all(), "it went further out"
    assert broken == set()


@pytest.mark.parametrize("pushes", [1, -1])
@pytest.mark.parametrize("rate", [10, 100, 1000])
@pytest.mark.parametrize("case", CASES)
def test_it_comes_back_whether_the_action_leads_inwards_or_outwards(case, rate, pushes, beside):
    exact = beside(case, "left", "end_effector_delta", rate, "default", "xyz")
    chain, action = exact.chain(), np.array([0.0, pushes, 0.0], np.float32)
    for step in range(3 * rate):
        loads = exact.execute(chain(exact.observation, action, step)[0])
        assert {name for name, load in loads.items() if load > 1 + TOLERANCES[name]} <= {"workspace"}
        if outside(exact).max() < 1e-6:
            return
    raise AssertionError(f"it is still {outside(exact)} m outside")


@pytest.mark.parametrize("rate", [10, 1000])
@pytest.mark.parametrize("space", ["position", "pose", "own_frame"])
def test_without_an_action_it_stays_where_it_is(space, rate, beside):
    exact = beside("panda", "corner", SPACES[space][0], rate, "published", *SPACES[space][1:])
    chain, joints = exact.chain(), exact.reader.joint_positions(exact.observation).copy()
    for step in range(20):
        executed, verdict = chain(exact.observation, np.zeros(exact.size, np.float32), step)
        exact.execute(executed)
        assert not verdict.changed
    np.testing.assert_array_equal(exact.reader.joint_positions(exact.observation), joints)


@needs_compiler
@pytest.mark.parametrize("frame", [("xyz", "base"), ("xyz+rotation", "base"), ("x+y+yaw", "end_effector")])
@pytest.mark.parametrize("case", CASES)
def test_both_planners_agree_outside_the_box(case, frame, beside):
    exact = beside(case, "corner", "end_effector_delta", 20, "default", *frame)
    problem = stop_problem(exact)
    native, python = NativeStopPlanner(problem), PythonStopPlanner(problem)
    guard, stream = JointLimits(native, exact.actions, exact.reader), Stream(exact.size, [2])
    outcomes = []
    for step in range(30):
        action, measured = stream("held" if step % 2 else "uniform", step), guard._measured(exact.observation)
        guard.state[: exact.actions.joint_count] = exact.reader.joint_positions(exact.observation)
        wanted = exact.actions.controls(exact.observation, action) * (0.02 if step % 3 == 0 else 1.0)
        plan, expected = (each.plan(guard.state, measured, wanted) for each in (native, python))
        assert plan.outcome == expected.outcome
        np.testing.assert_allclose(plan.path, expected.path, atol=1e-9)
        np.testing.assert_allclose(plan.state, expected.state, rtol=1e-6, atol=1e-6)
        outcomes.append(plan.outcome)
        exact.execute(guard(exact.observation, action, step)[0])
    assert any(outcomes) and not all(outcomes)


@pytest.mark.parametrize("frame", ["base", "end_effector"])
@pytest.mark.parametrize("side", SIDES)
def test_the_controller_moves_it_as_the_safety_filters_expect(side, frame):
    """Neither the simulated arm nor a robot's driver pulls it back at once."""
    low, high = box_beside(arm().reset(0).observation["state"][14:17].astype(np.float64), side)
    backend = arm(axes="xyz+gripper", workspace_low=tuple(low), workspace_high=tuple(high), action_frame=frame)
    observation = backend.reset(0).observation
    _, _, reader, actions = parts(backend)
    start, rng = reader.position(observation), np.random.default_rng(0)
    for size in (0.0, 0.1, 1.0):
        for _ in range(5):
            action = (size * rng.choice([-1.0, 1.0, 0.3], 4)).astype(np.float32)
            model = backend.as_model()
            model.begin(reader.joint_positions(observation))
            target = model.target(reader.joint_positions(observation), action).pose.position
            moved = np.array(actions.motion(observation, action).displacement[:3])
            np.testing.assert_allclose(target - start, moved, atol=1e-6)
            uncut = np.abs(actions.motion(observation, action).uncut[:3])
            assert (np.abs(target - start) <= uncut + 1e-6).all(), "no further than the action"


@pytest.mark.parametrize("side", SIDES)
def test_a_pose_command_does_not_pull_it_back_at_once_either(side):
    """A pose, as a robot's driver sends it, may be outside the box, but no further out than the end effector."""
    low, high = box_beside(arm().reset(0).observation["state"][14:17].astype(np.float64), side)
    backend = arm(workspace_low=tuple(low), workspace_high=tuple(high))
    backend.reset(0)
    controller, start = backend.controller, backend.arm.position(backend.data)
    axis, direction = SIDES[side][0]
    for change, expected in ((0.0, 0.0), (-0.005, -0.005), (0.005, 0.0)):
        wanted = start.copy()
        wanted[axis] += direction * change
        controller.set_reference(backend.data, wanted, backend.arm.rotation(backend.data))
        assert controller.reference_position[axis] == pytest.approx(start[axis] + direction * expected, abs=1e-9)


@pytest.mark.parametrize(("rate", "axis"), [(10, 0), (50, 1), (200, 2)])
def test_the_simulated_arm_stays_outside_until_an_action_leads_it_back(rate, axis):
    home = arm().reset(0).observation["state"][14:17].astype(np.float64)
    high = home + 0.25
    high[axis] = home[axis] - DISTANCE
    controller = ControllerConfig(
        action_axes="xyz",
        workspace_low=tuple(home - 0.25),
        workspace_high=tuple(high),
        translation_scale=0.2 / rate,
        rate=1000.0,
    )
    backend = make_backend(
        "pick_cube",
        control_rate=rate,
        max_episode_steps=1000,
        arm=ArmConfig(home_noise=0.0),
        controller=controller,
    )
    backend.reset(0)
    for _ in range(rate // 2):
        step = backend.step(np.zeros(3, np.float32))
    assert step.observation["state"][14 + axis] == pytest.approx(home[axis], abs=2e-3)
    action = np.zeros(3, np.float32)
    action[axis] = -1.0
    for _ in range(2 * rate):
        step = backend.step(action)
    assert step.observation["state"][14 + axis] < high[axis]


@given(
    low=st.floats(-1, 0), size=st.floats(0.01, 2), share=st.floats(0, 1), move=st.floats(-1, 1, allow_subnormal=False)
)
def test_inside_the_box_the_cut_is_the_same_as_that_of_the_target(low, size, share, move):
    """To the last bit: the rule for the way back changes nothing there."""
    high = low + size
    coordinate = min(low + share * size, high)
    target = coordinate + move
    if not low <= target <= high:
        assert _cut_off(low - coordinate, high - coordinate, move) == min(max(target, low), high) - coordinate
