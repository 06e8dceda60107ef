"""What the virtual robot publishes becomes what the simulator observes; commands say what actions mean."""

import os
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ArmPose, ArmTarget, ConfigError, ManualClock, SpecError
from robo_rl.drivers.robot.assembly import ObservationAssembler
from robo_rl.drivers.robot.commanding import ArmCommander, BaseCommander
from robo_rl.drivers.robot.config import CommandConfig, GripperConfig, RobotConfig
from robo_rl.drivers.robot.gripper import GripperCommander
from robo_rl.drivers.robot.layout import ObservationLayout
from robo_rl.drivers.robot.listening import Listener, timings_of
from robo_rl.drivers.virtual.config import VirtualRobotConfig
from robo_rl.drivers.virtual.topics import ArmTopics
from robo_rl.sim import make_backend
from robo_rl.sim.controller import exponential

from ..rigs.robot_rig import Recorder, composed, driver, wait_until

BLIND = "task.observation.object=false"
JOINT_ACTIONS = "task.controller.action_space=joint_delta"
LINKS = """
<mujoco>
  <worldbody>
    <body name="base">
      {links}
    </body>
  </worldbody>
</mujoco>
"""


def newest(layout: ObservationLayout, node: Recorder) -> dict[str, Any]:
    return {name: node.published[source.topic][-1] for name, source in layout.used.items()}


@pytest.mark.parametrize("task", ["reach", "pick_cube", "open_door"])
def test_what_the_virtual_robot_publishes_is_what_the_simulator_observes(task):
    inner = driver(composed(f"task={task}"))
    backend = make_backend(task)
    robot, node, obeyed = backend.as_robot(), Recorder(), []
    topics = ArmTopics(node, VirtualRobotConfig(), robot, obeyed.append, hold=print)
    layout = inner._layout
    assert inner.spec == backend.spec
    backend.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        step = backend.step(rng.uniform(-0.5, 0.5, backend.spec.action.shape).astype(np.float32))
        topics.publish_state()
        topics.publish_ready(True)
        messages = newest(layout, node)
        observation = layout.observation(messages)
        assert observation.keys() == step.observation.keys()
        for key, value in step.observation.items():
            np.testing.assert_allclose(observation[key], value, atol=2e-6)
            assert observation[key].dtype == value.dtype
        assert layout.rewards(messages) == pytest.approx(step.rewards)
        assert layout.ready(messages)
        np.testing.assert_allclose(layout.pose(messages).position, backend.arm.position(backend.data))
    assert len(node.published["robot_program_running"]) == 1, "said once, when it changed"


def test_a_guard_does_not_believe_a_publisher_that_repeats_its_last_message(monkeypatch):
    robot, node, clock = Recorder(), Recorder(), ManualClock()
    monkeypatch.setattr("robo_rl.drivers.robot.watch.open_node", lambda *arguments: node)
    inner = driver(composed("robot.emergency_service=''"))
    inner.clock = clock
    watch = inner.watch()
    backend = make_backend("reach")
    backend.reset(0)
    topics = ArmTopics(robot, VirtualRobotConfig(), backend.as_robot(), print, hold=print)
    topics.publish_ready(True)
    assert "joint_states" in watch.look().silent
    for repeats in (False, True):
        for _ in range(20):
            topics.publish_state()
            clock.advance_ns(10_000_000)
            for topic, take in node.taking.items():
                message = robot.published[topic][-1]
                if hasattr(message, "header") and not (repeats and topic == "joint_states"):
                    message.header.stamp.nanosec = clock.now_ns()
                take(message)
        seen = watch.look()
        assert (seen.observation is None) == repeats
    assert seen.silent == {"joint_states": pytest.approx(0.19)}
    watch.close()


def test_joints_and_fingers_may_come_in_messages_of_their_own():
    node, layout = Recorder(), driver(composed("robot=xarm", "task=pick_cube", JOINT_ACTIONS, BLIND))._layout
    sources = {name: replace(layout.used[name], topic="joint_states") for name in ("joints", "gripper")}
    assembler = ObservationAssembler(timings_of(sources))
    listener = Listener(node, sources, layout.wanted, ManualClock(), assembler)
    take, arm = node.taking["joint_states"], [f"joint{number}" for number in range(1, 8)]

    def say(names, position):
        values = np.full(len(names), position)
        take(node.types.make("sensor_msgs/msg/JointState", name=names, position=values, velocity=values))

    say(arm, 0.1)
    assert assembler.missing() == ["gripper"] and listener.passed_over == {"gripper": arm}
    say(["drive_joint", "left_finger_joint"], 0.85)
    say(arm, 0.3)
    messages = {name: assembler.newest(name) for name in sources}
    np.testing.assert_array_equal(layout.joints(messages)[0], np.full(7, 0.3))
    assert layout._numbers("gripper", messages) == pytest.approx([0.0])
    say(arm[:3], 0.4)
    with pytest.raises(SpecError, match="expected 'joint4', got joint1, joint2, joint3"):
        layout.joints({"joints": assembler.newest("joints")})


def test_without_sources_of_pose_and_velocity_they_are_computed():
    given = driver(composed())._layout.used
    sources = {name: source for name, source in given.items() if name not in ("pose", "twist")}
    backend = make_backend("reach")
    robot, node = backend.as_robot(), Recorder()
    topics = ArmTopics(node, VirtualRobotConfig(), robot, print, hold=print)
    spec = backend.spec
    layout = ObservationLayout(RobotConfig(sources=sources), spec, robot.joints, make_backend("reach").as_model())
    backend.reset(1)
    step = backend.step(np.array([0.3, -0.5, 0.2], np.float32))
    topics.publish_state()
    topics.publish_ready(True)
    observation = layout.observation(newest(layout, node))
    np.testing.assert_allclose(observation["state"], step.observation["state"], atol=2e-6)


def test_a_message_with_a_value_that_is_not_finite_is_named():
    inner = driver(composed("task=reach"))
    backend = make_backend("reach")
    backend.reset(0)
    node = Recorder()
    topics = ArmTopics(node, VirtualRobotConfig(), backend.as_robot(), print, hold=print)
    topics.publish_state()
    topics.publish_ready(True)
    messages = newest(inner._layout, node)
    messages["wrench"].wrench.force.y = float("inf")
    with pytest.raises(SpecError, match=r"force_torque_sensor_broadcaster/wrench: expected finite values, got \["):
        inner._layout.observation(messages)


def test_a_camera_of_this_machine_takes_the_place_of_a_topic():
    seen = ("task.observation.cameras=[front]", "task.observation.width=32", "task.observation.height=24")
    camera = "robot.sources.front.camera.device=/dev/video0"
    empty = ("robot.sources.front.topic=''", "robot.sources.front.type=''")
    layout = driver(composed(*seen, camera, *empty, "robot.sources.front.camera.format=MJPG"))._layout
    assert layout.used["front"].place == "/dev/video0"
    image = np.zeros((24, 32, 3), np.uint8)
    assert layout._numbers("front", {"front": image}) is image
    for options, message in (
        ((camera,), r"robot\.sources\.\*\.topic must be empty where there is a camera, got 'front/image_raw'"),
        (empty, r"robot\.sources\.\*\.topic must be the name of a topic, or a camera\.device, got ''"),
        (
            (camera, *empty, "robot.sources.front.gives=joints"),
            r"gives must be images/<camera> where there is a camera",
        ),
        ((camera, *empty, "robot.sources.front.camera.width=640"), r"camera\.width must be given with camera\.height"),
        (
            (camera, *empty, "task.observation.frame_stack=3"),
            r"/dev/video0: the task stacks images of shape \(24, 32, 9\)",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            driver(composed(*seen, *options))


def test_commands_are_taken_back_by_the_virtual_robot():
    node, obeyed = Recorder(), []
    robot = make_backend("pick_cube").as_robot()
    ArmTopics(node, VirtualRobotConfig(), robot, obeyed.append, hold=print)
    pose = ArmPose(np.array([0.4, 0.1, 0.3]), exponential(np.array([3.0, 0.2, -0.1])))
    commander = ArmCommander(node, CommandConfig(kind="pose", topic="pose"), robot.joints, 0.1)
    commander.send(ArmTarget(pose=pose), pose)
    take = node.taking["cartesian_impedance_controller/equilibrium_pose"]
    take(node.published["pose"][-1])
    np.testing.assert_allclose(obeyed[-1].pose.position, pose.position)
    np.testing.assert_allclose(obeyed[-1].pose.rotation, pose.rotation, atol=1e-12)
    gripper = GripperCommander(node, GripperConfig(kind="positions", name="grip", fingers=2))
    for opening in (0.25, 0.26, 0.9):
        gripper.send(opening)
    sent = node.published["grip"]
    assert [message.data.tolist() for message in sent] == [[0.01] * 2, pytest.approx([0.036] * 2)], "small changes stay"
    node.taking["gripper_controller/commands"](sent[-1])
    assert obeyed[-1].opening == pytest.approx(0.9)
    count = len(obeyed)
    node.taking["gripper_controller/commands"](node.types.make("std_msgs/msg/Float64MultiArray", data=[0.1]))
    assert len(obeyed) == count


def test_the_virtual_gripper_stops_where_it_is_when_its_goal_is_cancelled():
    node, obeyed = Recorder(), []
    topics = ArmTopics(node, VirtualRobotConfig(), make_backend("pick_cube").as_robot(), obeyed.append, hold=print)
    topics._fingers = np.array([0.03, 0.03])

    class Goal:
        request = SimpleNamespace(command=SimpleNamespace(position=0.0))
        cancel_requested = False

        def canceled(self):
            self.cancel_requested = False  # as of both implementations

    goal = Goal()
    execution = threading.Thread(target=node.taking["gripper_controller/gripper_cmd"], args=(goal,), daemon=True)
    execution.start()
    wait_until(lambda: obeyed)
    goal.cancel_requested = True
    execution.join(10)
    assert not execution.is_alive()
    assert [target.opening for target in obeyed] == [0.0, pytest.approx(0.75)]


def test_a_topic_may_give_some_of_the_reward_terms():
    inner, node = driver(composed("+robot/scores=node")), Recorder()
    message = node.types.make("sensor_msgs/msg/JointState", name=["mine", "success"], position=[0.3, 1.0])
    assert inner.spec.reports_success
    assert inner._layout.rewards({"rewards": message}) == {"success": 1.0, "near": 0.0}
    assert not driver(composed("robot.sources.rewards.names=[near]")).spec.reports_success
    with pytest.raises(ConfigError, match=r"task/rewards gives the reward term 'sucess': did you mean 'success'\?"):
        driver(composed("robot.sources.rewards.names=[sucess]"))


def test_twists_joint_positions_and_trajectories_say_the_same_target():
    node = Recorder()
    here = ArmPose(np.array([0.4, 0.1, 0.3]), exponential(np.array([0.0, 0.0, 0.5])))
    turn = np.array([0.05, 0.0, 0.1])
    there = ArmPose(np.array([0.45, 0.1, 0.28]), exponential(turn) @ here.rotation)
    commander = ArmCommander(node, CommandConfig(kind="twist", topic="twist", frame="base_link"), ("a",), 0.1)
    commander.send(ArmTarget(pose=there), here)
    message = node.published["twist"][-1]
    assert message.header.frame_id == "base_link"
    linear, angular = message.twist.linear, message.twist.angular
    np.testing.assert_allclose([linear.x, linear.y, linear.z], [0.5, 0.0, -0.2], atol=1e-12)
    np.testing.assert_allclose([angular.x, angular.y, angular.z], turn / 0.1, atol=1e-9)
    joints = ArmTarget(joints=np.array([0.1, -0.2]))
    ArmCommander(node, CommandConfig(kind="joint_positions", topic="joints"), ("a", "b"), 0.1).send(joints, here)
    assert node.published["joints"][-1].data.tolist() == [0.1, -0.2]
    config = CommandConfig(kind="joint_trajectory", topic="trajectory", joints=("x", "y"))
    ArmCommander(node, config, ("a", "b"), 0.1).send(joints, here)
    trajectory = node.published["trajectory"][-1]
    assert trajectory.joint_names == ["x", "y"]
    assert trajectory.points[0].positions.tolist() == [0.1, -0.2]
    assert trajectory.points[0].time_from_start.nanosec == 100_000_000


def test_velocities_lead_to_the_target_within_limits_and_efforts_pull_towards_it():
    """Against the definitions: the way to the target in one control period, and a spring with a damper."""
    limits = [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.5]
    options = (JOINT_ACTIONS, f"task.arm.velocity_limits={limits}", "robot.command.topic=commands")
    fast = driver(composed(*options, "robot.command.kind=joint_velocities"))
    efforts = (
        "robot.command.kind=joint_efforts",
        "robot.command.stiffness=[100]",
        "robot.command.damping=[1,2,3,4,5,6,7]",
        "robot.command.effort=[8]",
    )
    soft = driver(composed(*options, *efforts))
    backend = make_backend("reach")
    backend.reset(0)
    node, sent = Recorder(), []
    ArmTopics(node, VirtualRobotConfig(), backend.as_robot(), print, hold=print).publish_state()
    messages = {
        "joints": node.published["joint_states"][-1],
        "pose": node.published["cartesian_pose_broadcaster/pose"][-1],
    }
    positions, _ = soft._layout.joints(messages)
    action = np.array([0.5, 0, 0, 0, 0, 0, -0.2], np.float32)
    for each in (fast, soft):
        each._body._model.begin(positions)
    target, _ = fast._body.plan(messages, action)
    np.testing.assert_allclose(target.velocities, [0.5, 0, 0, 0, 0, 0, -0.2], atol=1e-6)  # 0.1 rad in 0.1 s
    target, _ = fast._body.plan(messages, 2 * np.roll(action, -1))
    np.testing.assert_allclose(target.velocities, [0, 0, 0, 0, 0, -0.2, 0.5], atol=1e-6)  # halved

    soft._body._arm = SimpleNamespace(check=lambda: None, send=lambda target, pose: sent.append(target.efforts))
    plan = soft._body.plan(messages, action)
    messages["joints"].velocity[:7] = np.arange(7) / 10
    soft._body.send(plan, messages)
    expected = 100 * np.array([0.05, 0, 0, 0, 0, 0, -0.02]) - np.arange(1, 8) * np.arange(7) / 10
    np.testing.assert_allclose(sent[0], expected, atol=1e-5)
    messages["joints"].velocity[:7] = -10
    soft._body.send(plan, messages)
    assert sent[1].tolist() == [8.0] * 7
    for words, said in (
        (("robot.command.damping=[1,2]",), "robot.command.damping must be one value, or one for each of 7 joints"),
        (("robot.command.effort=[]",), "robot.command.effort must be given where kind=joint_efforts"),
        (("robot.command.timeout=0.01",), "robot.command.timeout must be above 1 / rate = 0.02"),
    ):
        with pytest.raises(ConfigError, match=said):
            driver(composed(*options, *efforts, *words))


def arm_options(folder, joints):
    """Give a task an arm of these joints, and no gripper."""
    axes = ("0 0 1", "0 1 0", "0 1 0", "0 1 0", "0 0 1", "0 1 0")
    opened = "".join(
        f'<body pos="0 0 0.15"><joint name="{joint}" axis="{axis}" range="-3 3"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 0.1" size="0.03"/>'
        for joint, axis in zip(joints, axes, strict=False)
    )
    model = folder / "arm.xml"
    model.write_text(LINKS.format(links=opened + '<site name="tool" pos="0 0 0.1"/>' + "</body>" * len(joints)))
    count = len(joints)
    return [
        f"task.arm.model={model}",
        f"task.arm.joints=[{','.join(joints)}]",
        "task.arm.end_effector=tool",
        f"task.arm.home={[0, 0.4, 0.5, 0.3, 0, 0][:count]}",
        f"task.arm.torque_limits={[150, 150, 150, 28, 28, 28][:count]}",
        f"task.arm.velocity_limits={[2] * count}",
        "task.arm.gripper_actuator=null",
        "task.arm.wrist_sensor_site=null",
        BLIND,
    ]


def test_the_ready_configurations_fit_their_tasks(tmp_path):
    franka = driver(composed("robot=franka", BLIND))
    assert not franka.spec.reports_success
    driver(composed("robot=franka", "task=pick_cube", BLIND))
    joints = [f"{name}_joint" for name in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")]
    six = arm_options(tmp_path, joints)
    joint_actions = driver(composed("robot=ur", JOINT_ACTIONS, *six))
    assert joint_actions.spec.action.shape == (6,)
    assert driver(composed("robot=ur_servo", *six)).spec.action.names == ("x", "y", "z")
    with pytest.raises(ConfigError, match="6 joint names are given, the task has 7 joints"):
        driver(composed("robot=ur", JOINT_ACTIONS, BLIND))


def test_the_ready_configurations_with_trajectory_controllers_fit_their_tasks(tmp_path):
    # An arm of seven joints with a gripper is an xArm as well as a Panda to them.
    xarm = driver(composed("robot=xarm", "task=pick_cube", JOINT_ACTIONS, BLIND))
    assert xarm.spec.action.names[-1] == "gripper" and xarm.spec.action.shape == (8,)
    assert driver(composed("robot=xarm_servo", "task=pick_cube", BLIND)).spec.action.names[:3] == ("x", "y", "z")
    names = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll"]
    so101 = driver(composed("robot=so101_ros2", JOINT_ACTIONS, *arm_options(tmp_path, names)))
    assert so101.spec.action.names == tuple(names)
    with pytest.raises(ConfigError, match="5 joint names are given, the task has 7 joints"):
        driver(composed("robot=so101_ros2", JOINT_ACTIONS, BLIND))


def test_the_ready_configurations_of_mobile_bases_fit_the_car():
    car = driver(composed("robot=ackermann", "task=drive"))
    assert car.spec.reports_success and car.robot is None
    blind = "task.observation.object=false"
    turtle = driver(composed("robot=turtlebot", "task=drive", blind))
    assert not turtle.spec.reports_success
    config = composed("robot=turtlebot", "task=drive", blind).robot
    assert (config.terminate_on, config.truncate_on) == (["crashed", "flipped"], ["stuck"])
    with pytest.raises(ConfigError, match="nothing gives wheel_speed, steering of the observation 'state'"):
        driver(composed("robot=turtlebot", "task=drive", blind, "robot.unmeasured=[]"))
    with pytest.raises(ConfigError, match="kind=pose cannot carry actions of the space 'steering_throttle'"):
        driver(composed("robot=ackermann", "task=drive", "robot.command.kind=pose"))
    with pytest.raises(ConfigError, match=r"robot\.terminate_on must be did you mean 'crashed'"):
        driver(composed("robot=ackermann", "task=drive", "robot.terminate_on=[crash]"))


@pytest.mark.parametrize("kind", ["ackermann", "base_twist", "base_twist_stamped"])
def test_steering_and_throttle_become_commands(kind):
    node = Recorder()
    commander = BaseCommander(node, CommandConfig(kind=kind, topic="go", speed=4.0, turn=0.5))
    commander.send(-0.5, 0.25)
    (message,) = node.published["go"]
    if kind == "ackermann":
        assert (message.drive.speed, message.drive.steering_angle) == (1.0, -0.25)
    else:
        twist = message.twist if kind.endswith("stamped") else message
        assert (twist.linear.x, twist.linear.y, twist.angular.z) == (1.0, 0.0, -0.25)


@pytest.mark.parametrize(("given", "expected"), [(None, "LOCALHOST"), ("SUBNET", "SUBNET")])
def test_the_virtual_robot_is_looked_for_where_it_is(monkeypatch, given, expected):
    """By nodes of another range it is not found: it hears no multicast, and knows of no peers but its own machine's."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", str(given))
    if given is None:
        monkeypatch.delenv("ROS_AUTOMATIC_DISCOVERY_RANGE")
    driver(composed())
    assert os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] == expected
