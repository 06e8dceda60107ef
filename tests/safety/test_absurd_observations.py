"""The work that filters, guards and models of arms do for observations that no sensor measures."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robo_rl.safety.config import SpecificationConfig, WorkspaceConfig
from robo_rl.safety.observations import PlausibleEndEffector, ValidObservation
from robo_rl.safety.reference import PythonStopPlanner
from robo_rl.safety.start import StartCheck

from ..rigs.exact_arm import ExactArm
from .test_joint_limits import SPACES
from .test_stopping import stop_problem

ABSURD = [1e-45, 1e-38, 1e3, 1e5, 1e12, 1e20, 3e38, -3e38, np.nan, np.inf, -np.inf]
ELEMENTS = [
    "joint4_position",
    "joint2_velocity",
    "end_effector_y",
    "end_effector_r21",
    "wrist_force_z",
    "gripper_opening",
]
MOST_CALLS = 60_000
"""Calls of functions, in Python and C, for one observation: a stop of the longest duration takes a part of them."""


def calls_of(work: Callable[[], Any]) -> int:
    """Return the number of calls in ``work``, which does not depend on how busy the machine is."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > MOST_CALLS:
            raise AssertionError(f"more than {MOST_CALLS} calls for one observation")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with np.errstate(all="ignore"):
            work()
    finally:
        sys.setprofile(before)
    return count


def observed(exact: ExactArm, element: str, value: float) -> dict[str, Any]:
    state = exact.observation["state"].copy()
    state[exact.spec.observation["state"].names.index(element)] = value
    return {**exact.observation, "state": state}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("together", [True, False])
def test_every_filter_does_a_bounded_amount_of_work(space, together):
    """Of each filter, one after another and all at once, at a rate at which a stop has hundreds of periods."""
    exact = ExactArm("panda", SPACES[space][0], 1000.0, "published", *SPACES[space][1:])
    watched = SpecificationConfig(formula="always (end_effector_z < 9) and eventually[0, 8 s] (joint1_position > 0)")
    config = {"workspace": WorkspaceConfig(cone_angle=1.0), "specification": watched}
    chain = exact.chain(**config)
    if not together:
        chain._together = None
    action = np.full(exact.size, 0.3, np.float32)
    for element, value in itertools.product(ELEMENTS, ABSURD):
        chain.reset()
        chain(exact.observation, action, 0)
        results: list[Any] = []
        wrong = observed(exact, element, value)
        assert calls_of(lambda: results.append(chain(wrong, action, 1))) < MOST_CALLS  # noqa: B023
        executed, verdict = results[0]
        assert np.isfinite(executed).all() and (np.abs(executed) <= 1).all(), (element, value)
        if not np.isfinite(value) and element == "joint4_position":
            assert verdict.stop


@pytest.mark.parametrize("space", ["joint_delta", "pose"])
def test_the_planner_in_python_ends_for_every_observation(space):
    exact = ExactArm("panda", SPACES[space][0], 20.0, "published", *SPACES[space][1:])
    planner = PythonStopPlanner(stop_problem(exact))
    n, k = len(exact.lower), planner.fine.size
    for value in (1e-45, 1e5, 3e38, -3e38):  # others never reach it
        for place in (0, n):
            state, measured = (
                np.zeros(3 * n + 2 * k),
                np.array([*exact.kinematics.pose(exact.lower)[0], *np.eye(3).ravel()]),
            )
            state[place] = value
            assert calls_of(lambda: planner.plan(state, measured, np.zeros(k))) < MOST_CALLS  # noqa: B023


@pytest.mark.parametrize("value", ABSURD)
def test_guards_and_the_check_of_the_start_do_a_bounded_amount_of_work(value):
    exact = ExactArm("panda", "end_effector_delta")
    guard = PlausibleEndEffector(exact.spec, exact.robot, 0.1, 0.04, exact.reader)
    start = StartCheck(
        exact.reader, (np.array(exact.robot.workspace_low), np.array(exact.robot.workspace_high)), None, None
    )
    for element in ELEMENTS:
        wrong = observed(exact, element, value)
        for check in (lambda: guard(wrong, 0, 0), lambda: start(wrong, True)):  # noqa: B023
            assert calls_of(check) < 2_000


@pytest.mark.parametrize(
    "state",
    ["as numbers", "as text", "as whole numbers", "as numbers of 64 bit", "as objects", "as truths", "too short"],
)
def test_what_is_not_a_state_is_refused_by_the_first_guard(state):
    exact = ExactArm("panda", "end_effector_delta")
    right = exact.observation["state"]
    wrong: Any = {
        "as numbers": list(right),
        "as text": right.astype(str),
        "as whole numbers": right.astype(np.int64),
        "as numbers of 64 bit": right.astype(np.float64),
        "as objects": right.astype(object),
        "as truths": right.astype(bool),
        "too short": right[:-1],
    }[state]
    verdict = ValidObservation(exact.spec)({**exact.observation, "state": wrong}, 0, 0)
    assert verdict.stop and verdict.reasons == ("observation_invalid",) and "state" in verdict.message


@pytest.mark.parametrize("space", ["end_effector_delta", "joint_delta", "joint_position"])
def test_the_models_of_drivers_do_a_bounded_amount_of_work(space):
    """Of robots over ROS 2 and of servos: targets, inverse kinematics and the way home."""
    exact = ExactArm("panda", space)
    model, action = exact.backend.as_model(), np.full(exact.size, 0.3, np.float32)
    home = np.array(exact.robot.home)
    for value in [value for value in ABSURD if np.isfinite(value)]:  # the guards refuse others, and so do drivers
        joints = home.copy()
        joints[3] = value

        def work(joints: np.ndarray = joints) -> None:
            model.begin(joints)
            target = model.target(joints, action)
            if target.pose is not None:
                model.joints_towards(joints, target.pose)

        assert calls_of(work) < 5_000
