"""The usual cases of the filters in C++: the same actions and verdicts as from the filters one after another."""

import functools
from collections import Counter
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from robo_rl.core import PASSED
from robo_rl.safety import native
from robo_rl.safety.actions import make_action_map
from robo_rl.safety.barrier import BarrierFilter
from robo_rl.safety.chain import FilterChain
from robo_rl.safety.config import BarrierConfig, ContactConfig, SingularityConfig, SpeedConfig, WorkspaceConfig
from robo_rl.safety.slowing import EndEffectorSpeed

from ..rigs.exact_arm import CASES, ExactArm, Stream
from .test_joint_limits import SPACES
from .test_stopping import needs_compiler

pytestmark = needs_compiler


def separate(chain: FilterChain) -> FilterChain:
    """Return ``chain`` with its filters called one after another."""
    chain._together = None
    return chain


class Pair:
    """A chain in C++, and the same filters one after another.

    Attributes:
        outcomes: number of actions by the number of filters that were applied in C++, and by reasons.
    """

    def __init__(self, exact: ExactArm, **changes) -> None:
        self._native, self._python = exact.chain(**changes), separate(exact.chain(**changes))
        self.outcomes: Counter = Counter()

    def __call__(self, observation, action):
        result, verdict = self._native(observation, action, 0)
        expected, reason = self._python(observation, action, 0)
        assert verdict == reason
        # Both are float32, and the numbers that they are rounded from may differ by rounding errors.
        np.testing.assert_allclose(result, expected, rtol=2e-7, atol=1e-12)
        assert (result is action) == (verdict is PASSED)
        self.outcomes.update([self._native._together.applied, *verdict.reasons])
        return result

    @property
    def filters(self) -> int:
        return len(self._python._filters)


def disturbed(exact: ExactArm, rng: np.random.Generator):
    """Return the observation of an arm that does not follow exactly, and slips out of its box now and then."""
    state = exact.observation["state"].copy()
    n, place = len(exact.lower), exact._place
    state[:n] += rng.normal(0, 1e-4, n).astype(np.float32)
    state[place : place + 3] += rng.normal(0, 0.03, 3).astype(np.float32)
    return exact.observation | {"state": state}


@functools.cache
def home(case: str) -> list[float]:
    """Return the position of the end effector (3) where the arm begins [m]."""
    exact = ExactArm(case)
    return exact.reader.coordinates(exact.observation)


@pytest.fixture
def small_box(monkeypatch):
    """Make an arm in a small box around its home, with a volume to keep away from beside it."""

    def make(case: str, *arguments) -> ExactArm:
        x, y, z = home(case)
        low, high = (x - 0.02, y - 0.015, z - 0.02), (x + 0.02, y + 0.025, z + 0.01)
        changed = replace(CASES[case], low=low, high=high, keep_out=(x, y - 0.15, z, 0.03, 0.03, 0.03))
        monkeypatch.setitem(CASES, case, changed)
        return ExactArm(case, *arguments)

    return make


def follow(exact: ExactArm, pair: Pair, actions: int) -> None:
    """Send adversarial actions, in the second half to an arm that does not follow exactly."""
    stream, rng = Stream(exact.size, [0]), np.random.default_rng(0)
    for step in range(actions):
        observed = exact.observation if step < actions // 2 else disturbed(exact, rng)
        exact.execute(pair(observed, stream(Stream.KINDS[step // 20 % 5], step)))


@pytest.mark.parametrize(("space", "rate"), [*((space, 1000) for space in SPACES), ("pose", 10)])
@pytest.mark.parametrize("case", CASES)
def test_actions_and_verdicts_are_those_of_the_filters_one_after_another(case, space, rate, small_box):
    exact = small_box(case, SPACES[space][0], rate, "default", *SPACES[space][1:])
    pair = Pair(exact)
    follow(exact, pair, 120)
    changed = {"workspace", "speed", "joint_limits", "end_effector", "barrier"} & set(pair.outcomes)
    assert pair.outcomes[0] == 0 and len(changed) > 1, pair.outcomes


@pytest.mark.parametrize("case", ["panda", "six_joints"])
def test_an_obstacle_is_approached_in_the_same_way(case, monkeypatch):
    """On the way to it, first the stop may come too near, then the next period."""
    x, y, z = home(case)
    monkeypatch.setitem(CASES, case, replace(CASES[case], keep_out=(x + 0.2, y, z, 0.03, 0.1, 0.1)))
    exact = ExactArm(case, "end_effector_delta", 1000, "default", "xyz")
    pair, ahead = Pair(exact), np.array([1, *[0] * (exact.size - 1)], np.float32)
    for _ in range(250):
        exact.execute(pair(exact.observation, ahead))
    assert pair.outcomes[6] > 100 and pair.outcomes[4] > 20, pair.outcomes
    assert pair.outcomes["barrier"] > pair.outcomes[4], "the stop came too near"


@pytest.mark.parametrize("space", SPACES)
def test_only_what_a_distance_changes_is_left_to_python(space, monkeypatch):
    exact = ExactArm("six_joints", SPACES[space][0], 1000, "default", *SPACES[space][1:])
    chain, stream = exact.chain(), Stream(exact.size, [0])
    clearances = next(each for each in chain._filters if isinstance(each, BarrierFilter)).clearances
    asked, measured, changed = [], 0, 0
    bounds_at = clearances._bounds_at  # every query in Python begins with it
    monkeypatch.setattr(clearances, "_bounds_at", lambda joints: asked.append(joints) or bounds_at(joints))
    for step in range(1000):
        asked.clear()
        action, verdict = chain(exact.observation, stream(Stream.KINDS[step // 100 % 5], step), 0)
        measured += bool(clearances.arrays["measured"].any())
        changed += "barrier" in verdict.reasons
        may_be_singular = chain._together.applied < 4
        assert not asked or may_be_singular or "barrier" in verdict.reasons, (step, len(asked), verdict)
        exact.execute(action)
    assert measured > 100 and changed < measured / 2, (measured, changed)


@pytest.mark.parametrize("space", ["joint_delta", "end_effector_delta"])
def test_an_arm_that_touches_a_volume_is_left_to_the_filters(space, monkeypatch):
    x, y, z = home("six_joints")
    monkeypatch.setitem(CASES, "six_joints", replace(CASES["six_joints"], keep_out=(x, y, z, 0.05, 0.05, 0.05)))
    exact = ExactArm("six_joints", space, 1000)
    pair = Pair(exact)
    follow(exact, pair, 100)
    assert pair.outcomes[4] + pair.outcomes[0] == 100 and pair.outcomes["barrier"] > 10, pair.outcomes


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [("distance", "mj_no_such_function", "mj_no_such_function"), ("place_geoms", "mj_crb", "other distances")],
)
def test_without_the_functions_of_mujoco_python_decides(name, other, message, monkeypatch):
    monkeypatch.setitem(native.MUJOCO_FUNCTIONS, name, other)
    monkeypatch.setattr(native, "mujoco_functions", native.mujoco_functions.__wrapped__)
    is_available, reason = native.available()
    assert not is_available and message in reason
    assert ExactArm("panda", "joint_delta", 1000).chain()._together is None


def test_an_error_of_mujoco_is_raised_where_the_filters_are_made(monkeypatch):
    def fail(*arguments):
        raise mujoco.FatalError("mj_stackAlloc: out of memory")

    exact = ExactArm("panda", "joint_delta", 1000)
    monkeypatch.setattr(mujoco, "mj_geomDistance", fail)
    with pytest.raises(mujoco.FatalError, match="out of memory"):
        exact.chain()


@pytest.mark.parametrize(
    "changes",
    [
        {"contact": ContactConfig(enabled=False), "workspace": WorkspaceConfig(enabled=False)},
        {"speed": SpeedConfig(enabled=False), "singularity": SingularityConfig(enabled=False)},
        {"barrier": BarrierConfig(enabled=False)},
    ],
)
def test_filters_may_be_switched_off(changes):
    exact = ExactArm("panda", "joint_delta", 1000)
    pair = Pair(exact, **changes)
    follow(exact, pair, 100)
    assert pair.outcomes[pair.filters] > 50, pair.outcomes


def test_an_endless_joint_is_commanded_the_shorter_way_round():
    exact = ExactArm("panda", "joint_position", 1000)
    limits = {
        "position_lower": (-np.inf, *exact.robot.position_lower[1:]),
        "position_upper": (np.inf, *exact.robot.position_upper[1:]),
        "command_lower": (-np.pi, *exact.robot.command_lower[1:]),
        "command_upper": (np.pi, *exact.robot.command_upper[1:]),
    }
    exact.robot = replace(exact.robot, **limits)
    exact.actions = make_action_map(exact.spec, exact.robot, exact.kinematics, exact.reader)
    pair = Pair(exact, workspace=WorkspaceConfig(enabled=False))
    joints = exact.reader.joint_positions(exact.observation).copy()
    joints[0] = 3.14
    exact.place(joints)
    follow(exact, pair, 120)
    assert pair.outcomes[pair.filters] > 60, pair.outcomes


@pytest.mark.parametrize(
    ("changes", "load", "applied"),
    [
        ({}, 0.9, 0),
        ({"workspace": WorkspaceConfig(cone_angle=0.5)}, 0.0, 2),
        ({"singularity": SingularityConfig(slow=1.5)}, 0.0, 3),
        ({"filters": ({"target": f"{__name__}.Nothing"},)}, 0.0, 5),
    ],
)
def test_the_unusual_is_left_to_the_filters(changes, load, applied):
    exact = ExactArm("panda", "end_effector_delta", 1000)
    pair, place = Pair(exact, **changes), exact.spec.observation["state"].names.index("wrist_force_x")
    exact._first["state"][place] = load * exact.robot.force
    exact.reset()
    follow(exact, pair, 50)
    assert set(pair.outcomes) & set(range(7)) == {applied}, pair.outcomes


class Nothing:
    """A user's filter that passes every action."""

    def __init__(self, spec, robot) -> None: ...

    def reset(self) -> None: ...

    def __call__(self, observation, action, now_ns):
        return action, PASSED


def faster(spec, robot):
    """Make a user's filter of the same class as one before it, with a limit of its own."""
    return EndEffectorSpeed(10.0, 10.0, ExactArm("panda", "end_effector_delta", 100).actions)


def test_a_filter_of_the_same_class_as_another_does_not_take_its_place():
    exact = ExactArm("panda", "end_effector_delta", 100)
    pair = Pair(exact, filters=({"target": f"{__name__}.faster"},))
    follow(exact, pair, 100)
    assert pair.outcomes["speed"] and max(set(pair.outcomes) & set(range(8))) <= 5, pair.outcomes


def test_limits_may_be_whole_numbers():
    exact = ExactArm("panda", "joint_position", 100)
    low, high = (-2, -1, -2, -3, -2, 0, -2), (2, 1, 2, 0, 2, 3, 2)
    exact.robot = replace(exact.robot, command_lower=low, command_upper=high)
    exact.actions = make_action_map(exact.spec, exact.robot, exact.kinematics, exact.reader)
    follow(exact, Pair(exact), 50)


def test_an_observation_that_is_not_finite_stops_the_arm():
    exact = ExactArm("panda", "joint_delta", 100)
    pair = Pair(exact)
    exact.observation["state"][0] = np.nan
    pair(exact.observation, np.ones(exact.size, np.float32))
    assert pair.outcomes["filter_fault"] and pair.outcomes[0]


def test_a_failure_holds_the_arm_still(monkeypatch):
    exact = ExactArm("panda", "joint_delta", 100)
    chain = exact.chain()
    monkeypatch.setattr(chain._together, "_filter", lambda: 1 / 0)
    executed, verdict = chain(exact.observation, np.ones(exact.size, np.float32), 0)
    assert verdict.stop and verdict.reasons[0] == "filter_fault" and "NativeFilters failed" in verdict.message
    assert not executed[:-1].any()
