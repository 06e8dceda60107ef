"""The simulated arm as a robot, and what its actions mean to a driver: both against the backend that is stepped."""

import mujoco
import numpy as np
import pytest

from robo_rl.core import ArmTarget, ConfigError
from robo_rl.sim import make_backend

from .test_controller import arm_mass


@pytest.mark.parametrize("task", ["reach", "pick_cube"])
@pytest.mark.parametrize("space", ["end_effector_delta", "joint_delta", "joint_position"])
def test_an_action_by_way_of_its_target_does_what_a_step_does(task, space):
    """The path of a driver: measure, make a target of the action, command it, let a control period pass."""
    from robo_rl.sim.config import ControllerConfig

    # A robot's axes that actions do not move go home slowly, within its limits; the simulation's do so at once.
    axes = "full" if task == "pick_cube" or space == "end_effector_delta" else "xyz"
    controller = ControllerConfig(action_space=space, action_axes=axes)
    stepped, twin, moved = (make_backend(task, controller=controller) for _ in range(3))
    robot, model = moved.as_robot(), twin.as_model()
    n = len(robot.joints)
    first = stepped.reset(3)
    robot.reset(3)
    model.begin(robot.measure()["joint_positions"])
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(first.observation["state"][:n], robot.measure()["joint_positions"], atol=1e-6)
    for number in range(8):
        size = stepped.spec.action.shape[0]
        action = np.zeros(size, np.float32) if number in (3, 4) else rng.uniform(-0.3, 0.3, size).astype(np.float32)
        step = stepped.step(action)
        robot.command(model.target(robot.measure()["joint_positions"], action))
        robot.advance(stepped.config.ticks)
        np.testing.assert_allclose(moved.data.qpos, stepped.data.qpos, atol=1e-6)
        assert robot.rewards() == pytest.approx(step.rewards)
        np.testing.assert_allclose(robot.objects(), step.observation["object"], atol=1e-5)
        measured = robot.measure()
        np.testing.assert_allclose(measured["wrist_force"], step.observation["state"][29:32], atol=0.05)
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, measured["quaternion"])
        pose = model.pose(measured["joint_positions"])
        np.testing.assert_allclose(rotation.reshape(3, 3), pose.rotation, atol=1e-9)
        np.testing.assert_allclose(measured["position"], pose.position, atol=1e-9)
        linear, angular = model.velocity(measured["joint_positions"], measured["joint_velocities"])
        np.testing.assert_allclose(measured["linear_velocity"], linear, atol=1e-9)
        np.testing.assert_allclose(measured["angular_velocity"], angular, atol=1e-9)
        if step.ended:
            break


def test_a_robot_that_is_told_to_hold_comes_to_rest():
    backend = make_backend("reach")
    robot, model = backend.as_robot(), make_backend("reach").as_model()
    robot.reset(0)
    model.begin(robot.measure()["joint_positions"])
    for _ in range(3):
        robot.command(model.target(robot.measure()["joint_positions"], np.array([0, 1, 0], np.float32)))
        robot.advance(50)
    assert np.abs(robot.measure()["joint_velocities"]).max() > 0.3
    held = robot.measure()["position"]
    robot.hold()
    robot.advance(1000)
    assert np.abs(robot.measure()["joint_velocities"]).max() < 0.01
    assert np.linalg.norm(robot.measure()["position"] - held) < 0.03


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_hold_drops_a_motion_on_its_way_and_no_opening(delay):
    from robo_rl.sim.config import ArmConfig, ArmDynamics, ControllerConfig

    arm, controller = ArmConfig(dynamics=ArmDynamics(delay=delay)), ControllerConfig(action_space="joint_delta")
    robot = make_backend("reach", arm=arm, controller=controller).as_robot()
    robot.reset(0)
    start = robot.measure()["joint_positions"]
    robot.command(ArmTarget(joints=start + 0.3, opening=0.0))
    robot.hold()
    robot.advance(500)
    assert np.abs(robot.measure()["joint_positions"] - start).max() < 0.02
    assert robot.measure()["fingers"].max() < 0.005


def test_a_target_of_the_wrong_kind_is_refused():
    robot = make_backend("reach").as_robot()
    with pytest.raises(ConfigError, match="takes poses, not targets of its joints"):
        robot.command(ArmTarget(joints=np.zeros(7)))
    robot.command(ArmTarget(opening=0.0))
    robot.advance(300)
    assert robot.measure()["fingers"].max() < 0.005


def still_arm():
    """A robot whose joints are commanded, at home, without what its task is about."""
    from robo_rl.sim.config import ControllerConfig

    backend = make_backend("reach", controller=ControllerConfig(action_space="joint_delta"))
    robot = backend.as_robot()
    robot.reset(0)
    return backend, robot


def test_joint_velocities_are_kept_until_the_limits():
    backend, robot = still_arm()
    ticks = round(backend.config.controller.rate)
    before = robot.measure()["joint_positions"]
    wanted = np.array([0.3, 0.0, -0.2, 0.0, 0.0, 0.25, 0.4])
    robot.command(ArmTarget(velocities=wanted))
    robot.advance(round(0.5 * ticks))
    halfway = robot.measure()["joint_positions"]
    robot.advance(round(0.5 * ticks))
    after = robot.measure()["joint_positions"]
    np.testing.assert_allclose(after - halfway, 0.5 * wanted, atol=0.01)
    np.testing.assert_allclose((after - before)[wanted == 0], 0, atol=0.005)
    robot.command(ArmTarget(velocities=np.zeros(7)))
    robot.advance(ticks)
    assert np.abs(robot.measure()["joint_velocities"]).max() < 0.01
    robot.command(ArmTarget(velocities=np.array([0, 0, 0, 0, 0, 0, 1.5])))
    robot.advance(5 * ticks)
    assert robot.measure()["joint_positions"][6] == pytest.approx(backend.controller.upper[6], abs=0.01)
    robot.command(ArmTarget(joints=before))
    robot.advance(6 * ticks)
    np.testing.assert_allclose(robot.measure()["joint_positions"], before, atol=0.01)


def test_joint_efforts_accelerate_as_inertia_has_it_and_zero_is_no_force():
    backend, robot = still_arm()
    start = robot.measure()["joint_positions"]
    robot.command(ArmTarget(efforts=np.zeros(7)))
    robot.advance(200)
    np.testing.assert_allclose(robot.measure()["joint_positions"], start, atol=0.005, err_msg="gravity is compensated")
    mass, damping, step = arm_mass(backend), np.diag(backend.model.dof_damping[:7]), robot.tick
    efforts = np.array([0, 0, 0, 0, 0, 0, 0.2])
    expected = backend.data.qvel[:7].copy()
    robot.command(ArmTarget(efforts=efforts))
    robot.advance(20)
    for _ in range(20):
        expected += step * np.linalg.solve(mass + step * damping, efforts - damping @ expected)
    assert expected[6] > 0.02
    np.testing.assert_allclose(backend.data.qvel[:7], expected, atol=0.1 * expected[6])
    robot.hold()
    robot.advance(1000)
    assert np.abs(robot.measure()["joint_velocities"]).max() < 0.01


def test_frames_lead_from_the_base_to_the_end_effector_and_the_cameras():
    from robo_rl.sim.config import ObservationConfig

    backend = make_backend("reach", observation=ObservationConfig(cameras=("wrist", "front")))
    robot = backend.as_robot()
    robot.reset(2)
    rng, model, data = np.random.default_rng(0), backend.model, backend.data
    for _ in range(3):
        data.qpos[:7] += rng.uniform(-0.3, 0.3, 7)
        mujoco.mj_forward(model, data)
        frames = [*robot.fixed_frames(), *robot.moving_frames({"joint_positions": data.qpos[:7].copy()})]
        links = {frame.child: frame for frame in frames}
        assert len(links) == len(frames), "each frame has one parent"

        def in_base(name, links=links):
            if name == "base":
                return np.eye(4)
            pose, link = np.eye(4), links[name]
            pose[:3, :3], pose[:3, 3] = link.rotation, link.position
            return in_base(link.parent, links) @ pose

        site, wrist, camera = model.site("end_effector").id, model.site("wrist").id, model.camera("wrist").id
        for name, position, rotation in (
            ("end_effector", data.site_xpos[site], data.site_xmat[site].reshape(3, 3)),
            ("wrist", data.site_xpos[wrist], data.site_xmat[wrist].reshape(3, 3)),
            ("link4", data.body("link4").xpos, data.body("link4").xmat.reshape(3, 3)),
            ("wrist_optical_frame", data.cam_xpos[camera], data.cam_xmat[camera].reshape(3, 3) @ np.diag([1, -1, -1])),
        ):
            np.testing.assert_allclose(in_base(name)[:3, 3], position, atol=1e-9)
            np.testing.assert_allclose(in_base(name)[:3, :3], rotation, atol=1e-9)
        assert links["front_optical_frame"].parent == "base"
