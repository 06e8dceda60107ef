"""Filters one by one, and the chain."""

import numpy as np
import pytest

from robo_rl.core import PASSED, ConfigError, Verdict
from robo_rl.safety.chain import FilterChain
from robo_rl.safety.slowing import ContactLimits, EndEffectorSpeed, SingularitySlowdown
from robo_rl.safety.workspace import OrientationCone, WorkspaceBox
from robo_rl.sim.controller import exponential

from ..rigs.safety_arms import arm, parts


def observed(backend, **elements):
    """The observation at home, with elements of ``state`` replaced by name."""
    observation = dict(backend.reset(0).observation)
    state = observation["state"].copy()
    for name, value in elements.items():
        state[backend.spec.observation["state"].names.index(name)] = value
    observation["state"] = state
    return observation


# --- motion ----------------------------------------------------------------------------------------------------------


def test_what_is_remembered_is_forgotten_when_an_array_is_written_to():
    backend = arm()
    _, _, reader, actions = parts(backend)
    observation = backend.reset(0).observation
    action = np.array([0.5, 0, 0, 1], np.float32)
    first = actions.motion(observation, action)
    assert actions.motion(observation, action) is first
    action[0] = -0.5
    np.testing.assert_allclose(actions.motion(observation, action).joints, -first.joints)
    before = reader.joint_positions(observation).copy()
    observation["state"][1] += 0.25
    np.testing.assert_allclose(reader.joint_positions(observation) - before, [0, 0.25, 0, 0, 0, 0, 0], atol=1e-6)
    assert not np.allclose(actions.motion(observation, action).joints, -first.joints)


@pytest.mark.parametrize("frame", ["base", "end_effector"])
def test_motion_is_that_of_a_small_step_of_the_simulated_arm(frame):
    backend = arm(axes="full", action_frame=frame)
    _, kinematics, reader, actions = parts(backend)
    observation = backend.reset(0).observation
    rng = np.random.default_rng(0)
    joints, rotation = reader.joint_positions(observation), reader.rotation(observation)
    np.testing.assert_allclose(rotation, backend.arm.rotation(backend.data), atol=1e-6)
    for _ in range(5):
        action = rng.uniform(-0.02, 0.02, 7).astype(np.float32)
        motion = actions.motion(observation, action)
        scaled = action[:6].astype(np.float64) * ([0.05] * 3 + [0.2] * 3)
        frame_rotation = rotation if frame == "end_effector" else np.eye(3)
        np.testing.assert_allclose(motion.displacement[:3], frame_rotation @ scaled[:3], atol=1e-9)
        np.testing.assert_allclose(motion.displacement[3:], frame_rotation @ scaled[3:], atol=1e-9)
        # Forward kinematics of the joint motion is the displacement (but for damping and curvature).
        kinematics.place(joints)
        before = kinematics.data.site("end_effector").xpos.copy()
        kinematics.place(joints + motion.joints)
        after = kinematics.data.site("end_effector").xpos.copy()
        np.testing.assert_allclose(after - before, motion.displacement[:3], atol=1e-4)


@pytest.mark.parametrize("space", ["joint_delta", "joint_position"])
def test_joint_motions_become_actions_again(space):
    backend = arm(space, "gripper")
    _, kinematics, reader, actions = parts(backend)
    observation = backend.reset(0).observation
    action = np.random.default_rng(1).uniform(-0.3, 0.3, 8).astype(np.float32)
    motion = actions.motion(observation, action)
    np.testing.assert_allclose(actions.with_joints(observation, action, motion.joints), action, atol=1e-6)
    half = actions.motion(observation, actions.scaled(observation, action, 0.5)).joints
    np.testing.assert_allclose(half, motion.joints / 2, atol=1e-6)
    held = actions.hold(observation, action)
    np.testing.assert_allclose(actions.motion(observation, held).joints, 0, atol=1e-6)
    assert held[-1] == action[-1], "the gripper keeps what it holds"
    np.testing.assert_allclose(
        motion.displacement, kinematics.jacobian(reader.joint_positions(observation)) @ motion.joints, atol=1e-9
    )


def test_actions_that_are_not_an_arms_are_refused():
    from dataclasses import replace

    backend = arm()
    other = replace(backend.spec, action_space="gymnasium")
    with pytest.raises(ConfigError, match="safety knows no action space 'gymnasium'"):
        parts(type("Other", (), {"spec": other, "robot": backend.robot}))


# --- workspace -------------------------------------------------------------------------------------------------------


def test_the_arm_slides_along_a_wall():
    backend = arm()
    _, _, reader, actions = parts(backend, controller_holds_workspace=False)
    observation = observed(backend)
    here = reader.position(observation)
    box = WorkspaceBox(here - 0.02, here + 0.02, actions, reader)
    executed, verdict = box(observation, np.array([1, -0.2, -1, 0.7], np.float32), 0)
    np.testing.assert_allclose(executed, [0.4, -0.2, -0.4, 0.7], atol=1e-5)
    assert verdict == Verdict(changed=True, reasons=("workspace",))
    inside = np.array([0.3, -0.2, 0.1, 0.7], np.float32)
    executed, verdict = box(observation, inside, 0)
    assert executed is inside
    assert verdict is PASSED


def test_outside_the_box_the_way_back_is_free():
    backend = arm()
    _, _, reader, actions = parts(backend, controller_holds_workspace=False)
    observation = observed(backend)
    here = reader.position(observation)
    box = WorkspaceBox(here + 0.1, here + 0.3, actions, reader)
    executed, verdict = box(observation, np.array([1, 1, 1, 0], np.float32), 0)
    assert verdict is PASSED
    executed, verdict = box(observation, np.array([-1, 1, 0.5, 0], np.float32), 0)
    np.testing.assert_allclose(executed, [0, 1, 0.5, 0], atol=1e-6)


def test_what_pushes_out_of_the_box_leads_back_where_the_arm_has_slipped_out():
    """By no more than was asked for, and no further than the wall."""
    backend = arm()
    _, _, reader, actions = parts(backend, controller_holds_workspace=False)
    observation = observed(backend)
    here = reader.position(observation)
    unit = float(actions.motion(observation, np.array([1, 0, 0, 0], np.float32)).displacement[0])
    low, high = here - 0.1, here + np.array([-0.4 * unit, 0.1, 0.1])
    box = WorkspaceBox(low, high, actions, reader)
    for asked, executed in ((1, -0.4), (0.2, -0.2), (-0.3, -0.3), (0, 0)):
        found, _ = box(observation, np.array([asked, 0.5, 0, 1], np.float32), 0)
        np.testing.assert_allclose(found, [executed, 0.5, 0, 1], atol=1e-5)
    box = WorkspaceBox(here + np.array([0.4 * unit, -0.1, -0.1]), here + 0.1, actions, reader)
    found, _ = box(observation, np.array([-1, 0.5, 0, 1], np.float32), 0)
    np.testing.assert_allclose(found, [0.4, 0.5, 0, 1], atol=1e-5)


@pytest.mark.parametrize("space", ["joint_delta", "end_effector_delta"])
def test_other_actions_are_shortened_at_the_wall(space):
    backend = arm(space, "xyz+gripper" if space == "end_effector_delta" else "gripper", action_frame="end_effector")
    _, _, reader, actions = parts(backend, controller_holds_workspace=False)
    observation = observed(backend)
    here = reader.position(observation)
    box = WorkspaceBox(here - 0.01, here + 0.01, actions, reader)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, backend.spec.action.shape).astype(np.float32)
        executed, verdict = box(observation, action, 0)
        moved, asked = actions.motion(observation, executed), actions.motion(observation, action)
        assert (np.abs(moved.displacement[:3]) <= 0.01 + 1e-6).all()
        assert verdict.changed == bool((np.abs(asked.displacement[:3]) > 0.01).any())
        np.testing.assert_allclose(np.cross(moved.displacement[:3], asked.displacement[:3]), 0, atol=1e-8)


def test_a_box_within_that_of_the_robots_own_controller_is_kept():
    backend = arm(axes="full", action_frame="end_effector")
    here = parts(backend)[2].position(observed(backend))
    _, _, reader, actions = parts(backend, workspace_low=tuple(here - 0.02), workspace_high=tuple(here + 0.02))
    observation = observed(backend)
    box = WorkspaceBox(here - 0.01, here + 0.01, actions, reader)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        executed, _ = box(observation, action, 0)
        assert (np.abs(actions.motion(observation, executed).displacement[:3]) <= 0.01 + 1e-6).all()


def test_the_hand_does_not_lean_out_of_the_cone():
    backend = arm(axes="full")
    _, _, reader, actions = parts(backend)
    observation = observed(backend)
    down = np.array([0.0, 0.0, -1.0])
    cone = OrientationCone(down, 0.15, actions, reader)
    yaw = np.array([0, 0, 0, 0, 0, 1, 0], np.float32)
    assert cone(observation, yaw, 0)[1] is PASSED, "turning about the axis does not lean"
    executed, verdict = cone(observation, np.array([0, 0, 0, 1, 0, 0, 0.5], np.float32), 0)
    assert verdict.reasons == ("orientation",)
    turn = np.array(actions.motion(observation, executed).displacement[3:])
    pointing = exponential(turn) @ reader.rotation(observation)[:, 2]
    assert np.arccos(pointing @ down) == pytest.approx(0.15, abs=1e-4)
    assert executed[-1] == 0.5


# --- slowing ---------------------------------------------------------------------------------------------------------


def test_a_fast_action_is_scaled_to_the_speed_limit():
    backend = arm(axes="full")
    _, _, _, actions = parts(backend)
    observation = observed(backend)
    action = np.array([0.6, 0.0, 0.8, 0, 0, 0.1, 1], np.float32)  # 0.05 m in 0.1 s: 0.5 m/s
    executed, verdict = EndEffectorSpeed(0.25, 10.0, actions)(observation, action, 0)
    np.testing.assert_allclose(executed, [0.3, 0, 0.4, 0, 0, 0.05, 1], atol=1e-6)
    assert verdict.reasons == ("speed",)
    executed, _ = EndEffectorSpeed(1.0, 0.1, actions)(observation, action, 0)  # 0.02 rad in 0.1 s: 0.2 rad/s
    np.testing.assert_allclose(executed[:6], action[:6] / 2, atol=1e-6)
    assert EndEffectorSpeed(0.5, 0.2, actions)(observation, action, 0)[1] is PASSED


@pytest.mark.parametrize("frame", ["base", "end_effector"])
def test_the_speed_limit_holds_where_the_robots_own_controller_cuts_motion_off(frame):
    backend = arm(axes="full", action_frame=frame)
    observation = observed(backend)
    here = parts(backend)[2].position(observation)
    _, _, _, actions = parts(backend, workspace_low=tuple(here - 0.045), workspace_high=tuple(here + 0.025))
    limit = EndEffectorSpeed(0.3, 10.0, actions)
    rng = np.random.default_rng(0)
    changed = 0
    for _ in range(50):
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        executed, verdict = limit(observation, action, 0)
        shift = actions.motion(observation, executed).displacement[:3]
        assert np.linalg.norm(shift) <= 0.3 * actions.period * (1 + 1e-5)
        changed += verdict.changed
    assert 10 < changed < 50
    cut = np.array([0.9, 0, 0, 0, 0, 0, 1], np.float32)
    assert limit(observation, cut, 0)[1] is PASSED, "what is cut off is no motion"


def test_contact_slows_and_then_stops():
    backend = arm()
    _, _, reader, actions = parts(backend)
    contact = ContactLimits(force=50.0, torque=5.0, slow_from=0.6, actions=actions, reader=reader)
    action = np.array([0.5, -1, 0, 1], np.float32)
    zero = {f"wrist_{kind}_{axis}": 0.0 for kind in ("force", "torque") for axis in "xyz"}
    for force, torque, factor in ((30, 0, 1.0), (40, 0, 0.5), (0, 4.5, 0.25), (45, 4.0, 0.25)):
        observation = observed(backend, **zero | {"wrist_force_y": -force, "wrist_torque_x": torque})
        executed, verdict = contact(observation, action, 0)
        np.testing.assert_allclose(executed[:3], factor * action[:3], atol=1e-5)
        assert (verdict.changed, verdict.stop) == (factor < 1, False)
    observation = observed(backend, **zero | {"wrist_force_z": 30.0, "wrist_force_x": 40.0})
    executed, verdict = contact(observation, action, 0)
    np.testing.assert_array_equal(executed, [0, 0, 0, 1])
    assert verdict.stop
    assert verdict.message == "the wrist measures 50 N and 0.0 Nm, the limits are 50 N and 5 Nm"


@pytest.mark.parametrize("frame", ["base", "end_effector"])
def test_beside_the_robots_own_wall_contact_slows_the_motion_that_is_left(frame):
    backend = arm(axes="full", action_frame=frame)
    load = {f"wrist_{kind}_{axis}": 0.0 for kind in ("force", "torque") for axis in "xyz"} | {"wrist_force_z": 45.0}
    observation = observed(backend, **load)
    _, _, reader, _ = parts(backend)
    here, rotation = reader.position(observation), reader.rotation(observation) if frame != "base" else np.eye(3)
    low, high = here - np.array([0.2, 0.2, 0.01]), here + np.array([0.02, 0.2, 0.2])
    _, _, reader, actions = parts(backend, workspace_low=tuple(low), workspace_high=tuple(high))
    contact = ContactLimits(force=50.0, torque=5.0, slow_from=0.6, actions=actions, reader=reader)

    def made(action):  # by the robot, whose controller holds its reference in the box
        return np.clip(here + rotation @ (0.05 * action[:3].astype(np.float64)), low, high) - here

    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(200):
        action = rng.uniform(-1, 1, 7).astype(np.float32)
        before, after = made(action), made(contact(observation, action, 0)[0])
        assert np.linalg.norm(after) <= 0.25 * np.linalg.norm(before) + 1e-7
        assert np.linalg.norm(after) >= 0.02 * np.linalg.norm(before), "it slides on along the wall"
        if frame == "base":
            np.testing.assert_allclose(after, 0.25 * before, atol=1e-7)
        cut += bool(np.abs(before - rotation @ (0.05 * action[:3])).max() > 1e-4)
    assert 50 < cut < 200


def test_motion_into_a_singular_posture_is_slowed_and_out_of_it_free():
    backend = arm()
    _, kinematics, reader, actions = parts(backend, controller_holds_workspace=False)
    ahead = parts(backend, controller_holds_workspace=False)[1]
    observation = observed(backend, joint2_position=0.6, joint4_position=-0.7, joint6_position=2.0)
    joints = reader.joint_positions(observation)
    here = kinematics.condition(joints)
    assert here == pytest.approx(np.linalg.cond(kinematics.jacobian(joints)), rel=1e-6)
    action = np.array([0.2, 0, 0, 0.5], np.float32)
    away = action * (-1, 1, 1, 1)
    outwards, inwards = sorted(
        (action, away.astype(np.float32)),
        key=lambda a: -kinematics.condition(joints + actions.motion(observation, a).joints),
    )
    slow = SingularitySlowdown(here / 2, 2 * here, actions, reader, kinematics, ahead)
    executed, verdict = slow(observation, outwards, 0)
    np.testing.assert_allclose(executed, [outwards[0] * 2 / 3, 0, 0, 0.5], atol=1e-5)
    assert verdict.reasons == ("singularity",)
    assert slow(observation, inwards, 0)[1] is PASSED
    stop = SingularitySlowdown(here / 4, here / 2, actions, reader, kinematics, ahead)
    np.testing.assert_allclose(stop(observation, outwards, 0)[0], [0, 0, 0, 0.5], atol=1e-6)
    assert (
        SingularitySlowdown(2 * here, 3 * here, actions, reader, kinematics, ahead)(observation, outwards, 0)[1]
        is PASSED
    )


# --- chain -----------------------------------------------------------------------------------------------------------


class Halve:
    def __init__(self, above: float, reason: str, stop: bool = False) -> None:
        self.above, self.reason, self.stop = above, reason, stop

    def reset(self) -> None: ...

    def __call__(self, observation, action, now_ns):
        if np.abs(action).max() <= self.above:
            return action, PASSED
        return action / 2, Verdict(True, self.stop, (self.reason,), "too much" if self.stop else "")


def zero(observation, action):
    return np.zeros_like(action)


def test_filters_see_what_the_one_before_left():
    chain = FilterChain([Halve(0.9, "first"), Halve(0.4, "second", stop=True)], zero, budget=0)
    action = np.array([1.0], np.float32)
    executed, verdict = chain({}, action, 0)
    assert executed == 0.25
    assert action == 1.0
    assert verdict == Verdict(True, True, ("first", "second"), "too much")
    assert chain({}, np.array([0.3], np.float32), 0)[1] is PASSED


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_holds_and_stops(wrong):
    executed, verdict = FilterChain([Halve(0.0, "passes zero")], zero, 0)({}, np.array([0.5, wrong], np.float32), 0)
    np.testing.assert_array_equal(executed, [0, 0])
    assert verdict.stop
    assert verdict.reasons == ("action_not_finite",)
    assert f"{wrong} at index [1]" in verdict.message


class Returns:
    """A filter that returns one and the same, and says that it changed nothing."""

    def __init__(self, result: np.ndarray) -> None:
        self.result = result

    def reset(self) -> None: ...

    def __call__(self, observation, action, now_ns):
        return self.result, PASSED


@pytest.mark.parametrize(
    "wrong", [np.array([np.nan], np.float32), np.array([1.5], np.float32), np.zeros(2, np.float32), np.zeros(1)]
)
def test_what_a_filter_returns_is_an_action_or_the_robot_holds_and_stops(wrong):
    chain = FilterChain([Returns(wrong), Halve(0.0, "passes zero")], zero, 0)
    executed, verdict = chain({}, np.array([0.5], np.float32), 0)
    np.testing.assert_array_equal(executed, [0])
    assert verdict.stop
    assert verdict.reasons == ("filter_fault",)
    assert "Returns returned no action" in verdict.message


def test_a_change_that_a_filter_says_nothing_of_is_executed_and_told():
    executed, verdict = FilterChain([Returns(np.array([0.1], np.float32))], zero, 0)({}, np.array([1], np.float32), 0)
    assert executed == np.float32(0.1)
    assert verdict == Verdict(changed=True, reasons=("Returns",))


class Writes:
    """A filter that writes to the action that it is given, and says that it changed nothing."""

    def __init__(self, value: float) -> None:
        self.value = value

    def reset(self) -> None: ...

    def __call__(self, observation, action, now_ns):
        action[0] = self.value
        return action, PASSED


@pytest.mark.parametrize(
    ("value", "left", "verdict"),
    [(0.1, 0.1, Verdict(changed=True, reasons=("Writes",))), (np.nan, 0.0, None), (1.5, 0.0, None)],
)
def test_a_filter_that_writes_to_the_action_has_changed_it(value, left, verdict):
    action = np.array([1.0, 0.0], np.float32)
    executed, told = FilterChain([Writes(value)], zero, 0)({}, action, 0)
    np.testing.assert_array_equal(executed, np.array([left, 0], np.float32))
    np.testing.assert_array_equal(action, [1, 0], "what was proposed is what was proposed")
    if verdict is None:
        assert told.stop
        assert told.reasons == ("filter_fault",)
    else:
        assert told == verdict


def test_a_row_of_violations_ends_the_episode():
    chain = FilterChain([Halve(0.5, "half")], zero, budget=3)
    loud, quiet = np.array([1.0], np.float32), np.array([0.1], np.float32)
    stops = [chain({}, action, 0)[1].stop for action in (loud, loud, quiet, loud, loud, loud)]
    assert stops == [False] * 5 + [True]
    verdict = chain({}, loud, 0)[1]
    assert verdict.reasons == ("half", "violation_budget")
    assert verdict.message == "4 actions in a row had to be changed"
    chain.reset()
    assert not chain({}, loud, 0)[1].stop
