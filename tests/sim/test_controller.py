"""The controllers against closed forms: linear dynamics, statics, forward kinematics."""

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from scipy.linalg import expm

from robo_rl.core import ConfigError
from robo_rl.safety.actions import make_action_map
from robo_rl.safety.kinematics import Kinematics
from robo_rl.safety.motion import ArmReader
from robo_rl.sim.backend import ArmBackend
from robo_rl.sim.config import ArmConfig, ControllerConfig, RandomisationConfig, TaskConfig
from robo_rl.sim.controller import EndEffectorController, exponential, logarithm
from robo_rl.sim.tasks.base import Task

STILL = ArmConfig(home_noise=0.0)
UNSATURATED = 1e9


class Room(Task):
    """No task: the arm, and what ``furniture`` adds to the world."""

    config_class = TaskConfig

    def __init__(self, config: TaskConfig, furniture: Callable[[Any], None] = lambda spec: None):
        super().__init__(config)
        self.build = furniture

    def build(self, spec):
        raise NotImplementedError

    def bind(self, model):
        pass

    def initialise(self, model, data, rng):
        pass

    def object_state(self, data):
        return {"nothing": np.zeros(1)}

    def success(self, data):
        return False

    def expert(self, backend, rng):
        raise NotImplementedError


def room(
    furniture: Callable[[Any], None] = lambda spec: None, arm: ArmConfig = STILL, steps: int = 1000, **controller: Any
) -> ArmBackend:
    config = TaskConfig(arm=arm, controller=ControllerConfig(**controller), max_episode_steps=steps)
    backend = ArmBackend(Room(config, furniture))
    backend.reset(0)
    return backend


def run_ticks(backend: ArmBackend, count: int) -> np.ndarray:
    """Run the controller with its reference as it is; return the end effector's positions (count, 3) [m]."""
    positions = []
    for _ in range(count):
        mujoco.mj_step1(backend.model, backend.data)
        backend.controller.tick(backend.data)
        mujoco.mj_step2(backend.model, backend.data)
        positions.append(backend.arm.position(backend.data))
    mujoco.mj_forward(backend.model, backend.data)
    return np.array(positions)


def action(backend: ArmBackend, **values: float) -> np.ndarray:
    names = backend.spec.action.names
    assert set(values) <= set(names)
    return np.array([values.get(name, 0.0) for name in names], dtype=np.float32)


def task_inertia(backend: ArmBackend) -> np.ndarray:
    """The end effector's inertia (6, 6), from dense matrices."""
    model, data = backend.model, backend.data
    jacobian = np.zeros((6, model.nv))
    site = model.site("end_effector").id
    mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], site)
    return np.linalg.inv(jacobian[:, :7] @ np.linalg.inv(arm_mass(backend)) @ jacobian[:, :7].T)


def arm_mass(backend: ArmBackend) -> np.ndarray:
    """The joint-space inertia (7, 7); the fingers open and close in balance, so they do not touch the arm."""
    columns = np.zeros((7, backend.model.nv))
    for column, unit in zip(columns, np.eye(7, backend.model.nv), strict=True):
        mujoco.mj_mulM(backend.model, backend.data, column, unit)
    return columns[:, :7]


def dh_pose(q: np.ndarray) -> np.ndarray:
    """Pose (4, 4) of the grasp point from Franka's published (modified) Denavit-Hartenberg parameters."""
    a = (0, 0, 0, 0.0825, -0.0825, 0, 0.088)
    d = (0.333, 0, 0.316, 0, 0.384, 0, 0)
    alpha = np.array([0, -1, 1, 1, -1, 1, 1]) * np.pi / 2
    pose = np.eye(4)
    for i in range(7):
        ct, st, ca, sa = np.cos(q[i]), np.sin(q[i]), np.cos(alpha[i]), np.sin(alpha[i])
        pose = pose @ np.array(
            [[ct, -st, 0, a[i]], [st * ca, ct * ca, -sa, -d[i] * sa], [st * sa, ct * sa, ca, d[i] * ca], [0, 0, 0, 1]]
        )
    c, s = np.cos(-np.pi / 4), np.sin(-np.pi / 4)
    hand = np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0.107 + 0.1034], [0, 0, 0, 1]])
    return pose @ hand


def test_forward_kinematics_are_those_of_the_published_parameters():
    backend = room()
    ranges = backend.model.jnt_range[:7]
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(ranges[:, 0], ranges[:, 1])
        backend.data.qpos[:7] = q
        mujoco.mj_kinematics(backend.model, backend.data)
        expected = dh_pose(q)
        np.testing.assert_allclose(backend.arm.position(backend.data), expected[:3, 3], atol=1e-9)
        np.testing.assert_allclose(backend.arm.rotation(backend.data), expected[:3, :3], atol=1e-9)


def test_home_points_the_gripper_down_over_the_table():
    backend = room()
    np.testing.assert_allclose(backend.arm.position(backend.data), [0.5, 0.0, 0.18], atol=1e-3)
    np.testing.assert_allclose(backend.arm.rotation(backend.data), np.diag([1.0, -1.0, -1.0]), atol=1e-3)


def test_gravity_is_compensated():
    """With no stiffness at all the arm stays where it is, anywhere."""
    backend = room(stiffness=(0.0,) * 6, damping=(0.0,) * 6, nullspace_stiffness=0.0, nullspace_damping=0.0)
    backend.data.qpos[:7] = [0.5, -0.4, 0.3, -1.8, 0.4, 2.0, -0.6]
    mujoco.mj_forward(backend.model, backend.data)
    backend.controller.reset(backend.data)
    before = backend.data.qpos[:7].copy()
    run_ticks(backend, 500)
    np.testing.assert_allclose(backend.data.qpos[:7], before, atol=1e-6)


def test_coriolis_forces_are_compensated():
    """Joint accelerations follow M q'' = -damping q' alone, so a moving arm without gravity's help only slows down."""
    backend = room(stiffness=(0.0,) * 6, damping=(0.0,) * 6, nullspace_stiffness=0.0, nullspace_damping=0.0,
                   torque_rate_limit=UNSATURATED)  # fmt: skip
    backend.data.qvel[:7] = [0.8, -0.5, 0.6, 0.7, -0.9, 0.5, 1.0]
    mujoco.mj_forward(backend.model, backend.data)
    backend.controller.tick(backend.data)
    mujoco.mj_forward(backend.model, backend.data)
    expected = np.linalg.solve(arm_mass(backend), -backend.model.dof_damping[:7] * backend.data.qvel[:7])
    np.testing.assert_allclose(backend.data.qacc[:7], expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.0), (0.08, 0.1, -0.05), (-0.1, -0.15, 0.1)])
def test_a_pose_is_held_without_error(offset):
    backend = room()
    controller = backend.controller
    assert isinstance(controller, EndEffectorController)
    wanted = backend.arm.position(backend.data) + offset
    rotation = exponential(np.array([0.0, 0.1, 0.3])) @ backend.arm.rotation(backend.data)
    controller.set_reference(backend.data, wanted, rotation)
    run_ticks(backend, 1500)
    np.testing.assert_allclose(backend.arm.position(backend.data), wanted, atol=1e-4)
    assert np.linalg.norm(logarithm(backend.arm.rotation(backend.data) @ rotation.T)) < 1e-3


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_step_response_is_that_of_a_second_order_system(axis):
    """Inertia x'' + D x' + K x = K x_ref, in six coupled axes, by the matrix exponential."""
    stiffness, damping = np.array([1500.0] * 3 + [120.0] * 3), np.array([120.0] * 3 + [12.0] * 3)
    backend = room(stiffness=tuple(stiffness), damping=tuple(damping), torque_rate_limit=UNSATURATED)
    controller = backend.controller
    assert isinstance(controller, EndEffectorController)
    backend.model.dof_damping[:7] = 0.0
    start = backend.arm.position(backend.data)
    inertia = task_inertia(backend)
    step = np.zeros(6)
    step[axis] = 0.005
    controller.set_reference(backend.data, start + step[:3], backend.arm.rotation(backend.data))

    count, dt = 150, backend.model.opt.timestep
    measured = run_ticks(backend, count) - start
    mobility = np.linalg.inv(inertia)
    system = np.block([[np.zeros((6, 6)), np.eye(6)], [-mobility * stiffness, -mobility * damping]])
    state = np.concatenate([-step, np.zeros(6)])
    expected = np.array([(expm(system * dt * i) @ state)[:3] + step[:3] for i in range(count)])
    assert expected[:, axis].max() > 0.0045, "the response should have come near its goal"
    np.testing.assert_allclose(measured, expected, atol=0.03 * 0.005)


def test_the_posture_does_not_move_the_end_effector():
    backend = room(nullspace_stiffness=200.0, nullspace_damping=0.0, torque_rate_limit=UNSATURATED)
    model, data = backend.model, backend.data
    controller = backend.controller
    assert isinstance(controller, EndEffectorController)
    data.qpos[:7] += [0.2, 0.1, -0.3, 0.1, 0.2, -0.1, 0.1]
    mujoco.mj_forward(model, data)
    controller.set_reference(data, backend.arm.position(data), backend.arm.rotation(data))
    controller.tick(data)
    mujoco.mj_forward(model, data)
    jacobian = np.zeros((6, model.nv))
    mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], model.site("end_effector").id)
    assert np.abs(data.qacc[:7]).max() > 1.0, "the posture should be pulled at"
    np.testing.assert_allclose(jacobian[:, :7] @ data.qacc[:7], 0.0, atol=0.05)


def wall(spec: Any) -> None:
    spec.worldbody.add_geom(
        name="wall", type=mujoco.mjtGeom.mjGEOM_BOX, pos=(0.60, 0, 0.3), size=(0.02, 0.5, 0.3), friction=(0, 0, 0)
    )


def wall_force(backend: ArmBackend) -> float:
    """Sum of normal contact forces on the wall [N]."""
    geom, total, force = backend.model.geom("wall").id, 0.0, np.zeros(6)
    for index in range(backend.data.ncon):
        if geom in backend.data.contact.geom[index]:
            mujoco.mj_contactForce(backend.model, backend.data, index, force)
            total += force[0]
    return total


@pytest.mark.parametrize(("stiffness", "clip"), [(2000.0, 0.02), (1000.0, 0.01)])
def test_contact_force_is_bounded_by_stiffness_times_clip(stiffness, clip):
    backend = room(
        wall,
        action_axes="xyz+gripper",
        stiffness=(stiffness,) * 3 + (150.0,) * 3,
        error_clip=(clip,) * 3 + (0.1,) * 3,
    )
    backend.model.geom_friction[:] = 0.0
    for _ in range(30):
        backend.step(action(backend, x=1.0, gripper=-1.0))
    force = wall_force(backend)
    assert force == pytest.approx(stiffness * clip, rel=0.02)


def test_torques_and_their_rates_are_limited():
    arm = ArmConfig(torque_limits=(30.0, 40.0, 30.0, 30.0, 5.0, 5.0, 5.0))
    backend = room(arm=arm, stiffness=(8000.0,) * 3 + (500.0,) * 3, error_clip=(0.1,) * 3 + (0.5,) * 3)
    rng = np.random.default_rng(0)
    largest = np.zeros(7)
    motors = slice(1, 8)
    assert [backend.model.actuator(i).name for i in range(1, 8)] == [f"torque_joint{i}" for i in range(1, 8)]
    previous = backend.data.ctrl[motors].copy()
    for _ in range(40):
        backend.controller.command(backend.data, rng.choice([-1.0, 1.0], 7).astype(np.float32))
        for _ in range(50):
            run_ticks(backend, 1)
            torque = backend.data.ctrl[motors].copy()
            assert np.abs(torque - previous).max() <= 1000.0 * 0.002 + 1e-9
            largest = np.maximum(largest, np.abs(torque))
            previous = torque
    assert (largest <= np.array(arm.torque_limits)).all()
    assert (largest == np.array(arm.torque_limits)).any(), "the limit should have been met"


@pytest.mark.parametrize("space", ["joint_position", "joint_delta", "end_effector_delta"])
def test_joints_stay_inside_their_limits(space):
    backend = room(action_space=space, workspace_low=(-2, -2, -2), workspace_high=(2, 2, 2))
    backend.model.geom_contype[:] = 0  # through table and floor, where only the limits stop the arm
    rng = np.random.default_rng(1)
    ranges, speeds = backend.model.jnt_range[:7], np.array(STILL.velocity_limits)
    lowest, highest, fastest = np.full(7, np.inf), np.full(7, -np.inf), np.zeros(7)
    for _ in range(12):
        command = rng.choice([-1.0, 1.0], backend.spec.action.shape[0]).astype(np.float32)
        for _ in range(12):
            backend.step(command)
            lowest = np.minimum(lowest, backend.data.qpos[:7])
            highest = np.maximum(highest, backend.data.qpos[:7])
            fastest = np.maximum(fastest, np.abs(backend.data.qvel[:7]))
    assert (lowest >= ranges[:, 0]).all()
    assert (highest <= ranges[:, 1]).all()
    assert (fastest <= 1.2 * speeds).all(), "speeds above the limits are braked"
    near_a_limit = (lowest < ranges[:, 0] + 0.2) | (highest > ranges[:, 1] - 0.2)
    assert near_a_limit.any(), "the arm should have been driven against a limit"


@pytest.mark.parametrize("beyond", [(0, 0.1), (3, -0.05), (6, 0.149)])
@pytest.mark.parametrize("space", ["joint_position", "joint_delta"])
def test_the_controller_moves_a_joint_outside_its_range_as_the_safety_filters_expect(space, beyond):
    """Neither the simulated arm nor a robot's driver pulls it back at once."""
    backend = room(action_space=space, action_axes="gripper")
    state = backend.reset(0).observation["state"].copy()
    actions = make_action_map(
        backend.spec, backend.robot, Kinematics(backend.robot), ArmReader(backend.spec, backend.robot)
    )
    controller, model, (joint, distance) = backend.controller, backend.as_model(), beyond
    state[joint] = distance + (controller.upper if distance > 0 else controller.lower)[joint]
    joints = state[:7].astype(np.float64)
    inwards = np.full(8, 0.3, np.float32)
    inwards[joint] = -np.sign(distance) * 0.3
    for action in (inwards, actions.hold({"state": state}, inwards)):
        model.begin(joints)
        motion = actions.motion({"state": state}, action).joints
        np.testing.assert_allclose(model.target(joints, action).joints - joints, motion, atol=1e-6)
        if action is not inwards:
            np.testing.assert_allclose(motion, 0.0, atol=1e-6)


def test_fingers_mirror_each_other_and_their_force_is_limited():
    def block(spec: Any) -> None:
        spec.worldbody.add_geom(
            name="wall", type=mujoco.mjtGeom.mjGEOM_BOX, pos=(0.5, 0.004, 0.18), size=(0.02, 0.015, 0.02)
        )

    backend = room(block)
    for _ in range(15):
        backend.step(action(backend, gripper=1.0))
    left, right = backend.data.qpos[7:9]
    assert left == pytest.approx(right, abs=1e-3)
    assert left == pytest.approx(0.015, abs=3e-3)
    assert wall_force(backend) < 2 * 30.0 * 1.05


def test_rates_that_do_not_divide_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"controller.rate \(500.0 Hz\).*control_rate \(15.0 Hz\).*33.3333"):
        TaskConfig(control_rate=15.0)
    assert TaskConfig(control_rate=20.0, controller=ControllerConfig(rate=1000.0)).ticks == 50


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ControllerConfig(action_space="end_efector_delta"), "did you mean 'end_effector_delta'"),
        (lambda: ControllerConfig(action_axes="xyz+yow"), "unknown axis 'yow'; did you mean 'yaw'"),
        (lambda: ControllerConfig(action_axes="xyz+z"), "distinct axes"),
        (lambda: ControllerConfig(rate=100.0), r"controller.rate must be in \[500, 100000\]"),
        (lambda: ControllerConfig(stiffness=(1.0,) * 5), "controller.stiffness must be 6 values"),
        (lambda: ArmConfig(home=(0.0,) * 6), "arm.home must be 7 values"),
        (lambda: TaskConfig(randomisation=RandomisationConfig(latency=0.1)), "randomisation.latency must be below"),
    ],
)
def test_wrong_configurations_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
