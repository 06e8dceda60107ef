"""The barrier filter: its quadratic programme against a dense optimiser, its distances and what it keeps clear of."""

import math
from collections import Counter
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from robo_rl.core import ConfigError
from robo_rl.safety import make_safe_backend
from robo_rl.safety.barrier import BarrierFilter, Clearances
from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import BarrierConfig, ContactConfig, JointsConfig, SafetyConfig
from robo_rl.safety.distance import geom_distance
from robo_rl.safety.levers import joint_levers
from robo_rl.safety.quadratic import nearest_point
from robo_rl.sim import make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig

from ..rigs.exact_arm import ExactArm
from ..rigs.safety_arms import PANDA_ACCELERATION, arm, parts

FOLDED = np.array([0.0, 0.0, 0.0, -2.9, 0.0, 0.6, 0.0])
"""The hand near the upper arm."""


@pytest.mark.parametrize("constraints", [1, 2, 6])
def test_the_nearest_point_is_that_of_a_dense_optimiser(constraints):
    rng = np.random.default_rng(constraints)
    contradictions = 0
    for _ in range(40):
        wanted, normals = rng.uniform(-1.2, 1.2, 5), rng.normal(size=(constraints, 5))
        offsets = rng.uniform(-1.5, 1.5, constraints)
        ones = np.ones(5)
        point = nearest_point(wanted, normals, offsets, -ones, ones)
        reference = minimize(
            lambda x: ((x - wanted) ** 2).sum(),  # noqa: B023
            np.zeros(5),
            jac=lambda x: 2 * (x - wanted),  # noqa: B023
            method="SLSQP",
            bounds=[(-1, 1)] * 5,
            constraints={"type": "ineq", "fun": lambda x: normals @ x - offsets, "jac": lambda x: normals},  # noqa: B023
            options={"ftol": 1e-12, "maxiter": 300},
        )
        if point is None:
            contradictions += 1
            assert not reference.success
            continue
        assert reference.success
        np.testing.assert_allclose(point, reference.x, atol=2e-5)
        assert (normals @ point >= offsets - 1e-7).all()
    assert contradictions < 30


def distances(clearances, joints):
    """The distances of all pairs at ``joints``, measured."""
    points = np.empty(6)
    return np.array([clearances._distance(pair, joints, points) for pair in range(len(clearances._pairs))])


def everything(clearances, joints):
    """All clearances within reach: those that a large motion may use up."""
    return clearances.near(joints, np.full(7, 10.0), 0.0, 1.0)


def test_gradients_are_those_of_finite_differences():
    backend = arm("joint_delta", "gripper")
    robot, kinematics, _, _ = parts(backend)
    clearances = Clearances(robot, kinematics, ("table",), reach=0.4)
    rng = np.random.default_rng(0)
    checked = 0
    for _ in range(6):
        joints = FOLDED + rng.uniform(-0.2, 0.2, 7)
        near = everything(clearances, joints)
        for index, clearance in enumerate(near):
            if not 0.01 < clearance.distance < 0.35:
                continue
            numeric = np.zeros(7)
            for joint in range(7):
                change = np.zeros(7)
                change[joint] = 1e-5
                ahead, behind = everything(clearances, joints + change), everything(clearances, joints - change)
                if len(ahead) != len(near) or len(behind) != len(near):
                    break
                numeric[joint] = (ahead[index].distance - behind[index].distance) / 2e-5
            else:
                checked += 1
                np.testing.assert_allclose(clearance.gradient, numeric, atol=5e-3)
    assert checked > 20


SIZES = {"sphere": 1, "capsule": 2, "box": 3}


def two_geoms(kinds, sizes, positions, quaternions):
    bodies = ""
    for kind, size, position, quaternion in zip(kinds, sizes, positions, quaternions, strict=True):
        size, position, quaternion = (" ".join(map(repr, map(float, each))) for each in (size, position, quaternion))
        bodies += f'<body pos="{position}" quat="{quaternion}"><geom type="{kind}" size="{size}"/></body>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return model, data


def rounded_distance(model, data):
    """The distance by a general optimiser: of the cores of both, less their radii."""
    halves, radii = np.zeros((2, 3)), np.zeros(2)
    for geom, (kind, size) in enumerate(zip(model.geom_type, model.geom_size, strict=True)):
        if kind == mujoco.mjtGeom.mjGEOM_BOX:
            halves[geom] = size
        else:
            halves[geom, 2], radii[geom] = size[1] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0, size[0]
    frames = [data.geom_xmat[geom].reshape(3, 3) for geom in range(2)]

    def squared(places):
        points = [data.geom_xpos[geom] + frames[geom] @ places[3 * geom : 3 * geom + 3] for geom in range(2)]
        return float(((points[0] - points[1]) ** 2).sum())

    bounds = [(-half, half) for half in halves.ravel()]
    best = minimize(squared, np.zeros(6), bounds=bounds, options={"ftol": 1e-15})
    return best.fun**0.5 - radii.sum()


def test_distances_of_primitives_are_those_of_an_optimiser():
    rng, apart = np.random.default_rng(0), 0
    for _ in range(300):
        kinds = rng.choice(list(SIZES), 2)
        sizes = [rng.uniform(0.02, 0.2, SIZES[kind]) for kind in kinds]
        quaternions = rng.standard_normal((2, 4))
        model, data = two_geoms(kinds, sizes, rng.uniform(-0.4, 0.4, (2, 3)), quaternions)
        points = np.empty(6)
        distance, expected = geom_distance(model, data, 0, 1, 5.0, points), rounded_distance(model, data)
        if expected > 1e-4:
            apart += 1
            assert distance == pytest.approx(expected, abs=2e-4)
            assert np.linalg.norm(points[3:] - points[:3]) == pytest.approx(distance, abs=1e-6)
        else:
            assert distance < 1e-3
    assert apart > 100


def test_boxes_that_are_apart_are_never_told_to_overlap():
    """The hand of a Panda beside a keep-out box: MuJoCo's query is 0 for one posture in fifteen."""
    place = np.array([0.74499747, 0.24155295, 0.29150022])
    columns = np.array([[-0.85037834, 0.5231636, 0.05618292], [0.52190711, 0.85223092, -0.03626887]])
    rotation = np.stack([*columns, np.cross(*columns)])
    quaternion = np.roll(Rotation.from_matrix(rotation).as_quat(), 1)
    rng, zero = np.random.default_rng(0), 0
    for _ in range(200):
        shifted = [[0.65, 0.3, 0.15], place + rng.normal(0, 1e-7, 3)]
        model, data = two_geoms(
            ["box"] * 2, [[0.05, 0.05, 0.15], [0.03, 0.1, 0.032]], shifted, [[1, 0, 0, 0], quaternion]
        )
        points = np.empty(6)
        zero += mujoco.mj_geomDistance(model, data, 0, 1, 0.05, points) <= 0
        assert geom_distance(model, data, 0, 1, 0.05, points) == pytest.approx(0.0121, abs=1e-4)
    assert zero > 0, "the case is one that fails"


def test_no_distance_changes_faster_than_its_bound():
    exact = ExactArm("six_joints")
    clearances = Clearances(exact.robot, exact.kinematics, ("keep_out1",), 0.5)
    rng = np.random.default_rng(0)
    for _ in range(200):
        joints = rng.uniform(exact.lower, exact.upper)
        motion = rng.normal(0, 0.05, len(joints))
        before, after = (distances(clearances, place) for place in (joints, joints + motion))
        outside = (before > 0) & (after > 0)  # depths are not exact
        assert (np.abs(after - before) <= clearances.arrays["levers"] @ np.abs(motion) + 1e-6)[outside].all()


@pytest.mark.parametrize("reference", [0.0, 0.5, -0.3, 2.0])
def test_the_bound_of_a_hinge_behind_a_slide_counts_from_the_position_at_which_the_slide_is_not_displaced(reference):
    """Slides of real models count from an end, or from where their encoder was set to zero."""
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><compiler autolimits="true"/><worldbody><geom name="post" type="sphere" size="0.01" pos="0.3 0.4 0"/>'
        '<body><joint name="turn" axis="0 0 1"/><geom type="sphere" size="0.01"/>'
        f'<body><joint name="reach" type="slide" axis="1 0 0" ref="{reference}" range="0.1 0.6"/>'
        '<geom name="tip" type="sphere" size="0.01" pos="0.05 0 0"/></body></body></worldbody></mujoco>'
    )
    robot = SimpleNamespace(model=model, joints=("turn", "reach"))
    post, tip = model.geom("post").id, model.geom("tip").id
    (levers,) = joint_levers(robot, [(post, tip)])
    data, fastest = mujoco.MjData(model), 0.0
    for reach in np.linspace(0.1, 0.6, 11):
        for turn in np.linspace(-np.pi, np.pi, 61):
            apart = []
            for step in (-1e-4, 1e-4):
                data.qpos[:] = turn + step, reach
                mujoco.mj_kinematics(model, data)
                apart.append(math.dist(data.geom_xpos[post], data.geom_xpos[tip]))
            fastest = max(fastest, abs(apart[1] - apart[0]) / 2e-4)
    assert fastest <= levers[0] + 1e-6
    assert levers[0] == pytest.approx(0.06 + max(abs(0.1 - reference), abs(0.6 - reference)))


@pytest.mark.parametrize("case", ["panda", "six_joints", "five_joints"])
def test_what_is_fixed_to_the_end_effector_approaches_no_faster_than_it_moves(case):
    exact = ExactArm(case)
    clearances = Clearances(exact.robot, exact.kinematics, ("keep_out1",), 2.0)
    fixed = np.nonzero(np.isfinite(clearances._shares))[0].tolist()
    rng, points = np.random.default_rng(0), np.empty(6)
    largest = 0.0
    for _ in range(100):
        joints, motion = rng.uniform(exact.lower, exact.upper), rng.normal(0, 1e-3, len(exact.lower))
        shift = float(np.linalg.norm(exact.kinematics.jacobian(joints) @ motion))
        for pair in fixed:
            before = clearances._distance(pair, joints, points)
            after = clearances._distance(pair, joints + motion, points)
            if min(before, after) > 0:
                largest = max(largest, abs(after - before) / (clearances._shares[pair] * shift))
    assert 0.5 < largest < 1.01  # the motion is not quite linear


@pytest.mark.parametrize("space", ["joint_delta", "joint_position", "end_effector_delta"])
def test_actions_that_the_barrier_does_not_look_at_would_pass(space):
    """The limit on the end effector's speed says of most clearances that no action comes near the barrier."""
    exact = ExactArm("six_joints", space, rate=1000.0)
    *others, barrier, _ = exact.chain()._filters
    near = Clearances(exact.robot, exact.kinematics, ("keep_out1",), 0.5)
    assert isinstance(barrier, BarrierFilter)
    every = BarrierFilter(barrier.margin, barrier.approach, near, barrier._actions, barrier._reader, None)
    rng, home = np.random.default_rng(0), exact.reader.joint_positions(exact.observation).copy()
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for step in range(500):
        exact.place(home + rng.normal(0, 0.03, len(home)))
        observation, action = exact.observation, rng.uniform(-1, 1, exact.size).astype(np.float32)
        for before in others:
            action, _ = before(observation, action, step)
        skipped = near.exceed(exact.reader.joint_positions(observation), barrier.enough, measure=True)
        (one, verdict), (other, expected) = (each(observation, action, step) for each in (barrier, every))
        assert one.tolist() == other.tolist() and verdict == expected
        outcomes[skipped, verdict.changed] += 1
    assert outcomes[True, False] > 50 and outcomes[False, True] > 5, outcomes


def test_five_joints_are_not_singular_by_their_number():
    exact = ExactArm("five_joints")
    home = exact.reader.joint_positions(exact.observation)
    jacobian = exact.kinematics.jacobian(home)
    assert exact.kinematics.condition(home) == pytest.approx(np.linalg.cond(jacobian), rel=1e-6)
    assert exact.kinematics.condition(home) < 30
    straight = home.copy()
    straight[2] = 0.0  # yaw, bend and pitch in a plane: the arm is stretched
    assert exact.kinematics.condition(straight) > exact.kinematics.condition(home)


def test_links_that_belong_together_are_not_watched():
    backend = arm("joint_delta", "gripper")
    robot, kinematics, _, _ = parts(backend)
    assert everything(Clearances(robot, kinematics, (), reach=0.02), np.array(robot.home)) == []
    with pytest.raises(ConfigError, match=r"no geom 'tabel': did you mean 'table'"):
        Clearances(robot, kinematics, ("tabel",), reach=0.1)


@pytest.mark.parametrize("space", ["joint_delta", "joint_position"])
def test_a_posture_that_would_collide_is_never_reached(space):
    """Commanded into itself and into the table for long; the arm that follows exactly keeps its distance."""
    backend = arm(space, "gripper", joint_scale=0.25)
    robot, kinematics, reader, actions = parts(backend)
    clearances = Clearances(robot, kinematics, ("table",), reach=0.15)
    settings = SafetyConfig(
        barrier=BarrierConfig(keep_out=("table",)),
        joints=JointsConfig(velocity=backend.config.arm.velocity_limits, acceleration=PANDA_ACCELERATION),
        contact=ContactConfig(enabled=False),
        violation_budget=0,
    )
    chain = make_filter_chain(backend.spec, robot, settings)
    observation = dict(backend.reset(0).observation)
    joints, rng, smallest, unfiltered, changed = (
        reader.joint_positions(observation),
        np.random.default_rng(0),
        1.0,
        1.0,
        0,
    )
    free = joints.copy()
    lower, upper = np.array(robot.command_lower), np.array(robot.command_upper)
    action = np.zeros(8, np.float32)
    for step in range(150):
        if step % 15 == 0:
            action = rng.choice([-1.0, 1.0], 8).astype(np.float32)
            action[3] = -1.0  # folds the elbow
        executed, verdict = chain(observation, action, step)
        changed += "barrier" in verdict.reasons
        joints = np.clip(joints + actions.motion(observation, executed).joints, lower, upper)
        smallest = min(smallest, clearances.smallest(joints))
        free = np.clip(free + 0.25 * action[:7], lower, upper)
        unfiltered = min(unfiltered, clearances.smallest(free))
        state = observation["state"].copy()
        state[:7] = joints
        observation["state"] = state
    assert changed > 5
    assert unfiltered < 0.0, "without the filter this collides"
    assert smallest > 0.0099


def test_the_simulated_hand_stays_out_of_a_keep_out_box():
    def farthest(enabled: bool) -> tuple[float, set]:
        backend = make_backend(
            "reach",
            arm=ArmConfig(home_noise=0.0),
            controller=ControllerConfig(action_axes="xyz"),
            keep_out=(0.5, 0.25, 0.2, 0.3, 0.1, 0.3),
            terminate_on_success=False,
        )
        safe = make_safe_backend(backend, barrier=BarrierConfig(enabled=enabled, margin=0.02))
        step, reasons = safe.reset(0), set()
        robot, kinematics, reader, _ = parts(backend)
        clearances, smallest = Clearances(robot, kinematics, ("keep_out1",), reach=0.3), 1.0
        while not step.ended:
            step = safe.step(np.array([0.2, 1, -0.1], np.float32))
            reasons |= set(step.verdict.reasons)
            smallest = min(smallest, clearances.smallest(reader.joint_positions(step.observation)))
        return smallest, reasons

    smallest, reasons = farthest(True)
    assert smallest > 0.01
    assert reasons == {"barrier"}
    assert farthest(False)[0] < 0.0
