"""Commands over real DDS: joint positions, and the gripper as an action, for which the arm never waits."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from robo_rl.core import DriverError, MonotonicClock, ResetLatch, SafetyStop
from robo_rl.drivers.robot.commanding import ArmCommander
from robo_rl.drivers.robot.config import CommandConfig, GripperConfig, ResetConfig
from robo_rl.drivers.robot.gripper import GripperCommander
from robo_rl.drivers.robot.resetting import TRIGGER, ResetService
from robo_rl.drivers.ros2 import open_node

from ..rigs.robot_rig import begin, patient_driver, virtual_robot, wait_until
from ..rigs.ros2_domain import free_domain

GRIPPER = "control_msgs/action/GripperCommand"


def test_the_newest_opening_reaches_a_gripper_action(monkeypatch, capsys):
    config = GripperConfig(kind="action", name="grip", closed=0.8, open=0.0, effort=20.0)
    positions: list[float] = []
    held = threading.Event()

    def execute(goal):
        positions.append(round(goal.request.command.position, 3))
        assert goal.request.command.max_effort == 20.0
        goal.succeed()
        return hand.types.make(f"{GRIPPER}_Result", position=positions[-1], reached_goal=True)

    def accept(goal):
        held.wait(20)  # a slow gripper
        return True

    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("hand") as hand, open_node("driver") as node:
            hand.create_action_server(GRIPPER, "grip", execute, accept)
            commander = GripperCommander(node, config)
            try:
                wait_until(lambda: commander.client.wait(0.0))
                began = time.monotonic()
                for opening in (1.0, 0.75, 0.5, 0.25):
                    commander.send(opening)
                assert time.monotonic() - began < 10, "nobody waits for the gripper"
                held.set()
                wait_until(lambda: positions and positions[-1] == 0.6)
                assert len(positions) <= 3, "openings that are out of date are left out"
                commander.reset()
                commander.send(0.25)
                wait_until(lambda: positions.count(0.6) == 2)
            finally:
                commander.close()


@pytest.mark.parametrize(("requested", "reached"), [(0.0, True), (0.08, False)])
def test_the_virtual_robot_has_a_gripper_action(monkeypatch, requested, reached):
    """To closed fingers it comes; to further than open it does not, and stalls."""
    with free_domain() as environment, virtual_robot(environment, "virtual.watchdog.stop_after=60"):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("lab") as node:
            make = node.types.make
            reset = node.create_client("std_srvs/srv/Trigger", "reset")
            gripper = node.create_action_client(GRIPPER, "gripper_controller/gripper_cmd")
            assert reset.wait(20.0) and gripper.wait(20.0)
            assert reset.call(make("std_srvs/srv/Trigger_Request"), 20.0).success
            goal = gripper.send_goal(make(f"{GRIPPER}_Goal", command={"position": requested}), timeout_s=20.0)
            _, result = goal.result(30.0)
            assert (result.reached_goal, result.stalled) == (reached, not reached)
            assert result.position == pytest.approx(min(requested, 0.04), abs=0.003)


@pytest.mark.parametrize("service", ["switch_command_type", "start_servo", ""])
def test_moveit_servo_is_told_to_take_twists(monkeypatch, service):
    kind = "std_srvs/srv/Trigger" if service == "start_servo" else "moveit_msgs/srv/ServoCommandType"
    requests = []

    def answer(request):
        requests.append(request)
        return servo.types.make(f"{kind}_Response", success=len(requests) < 3)

    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("servo_node", "left") as servo, open_node("driver", "left") as node:
            if service:
                servo.create_service(kind, f"~/{service}", answer)
            config = CommandConfig(kind="twist", topic="servo_node/delta_twist_cmds")
            commander = ArmCommander(node, config, ("joint",), 0.1)
            servo.create_subscription("geometry_msgs/msg/TwistStamped", "~/delta_twist_cmds")
            wait_until(lambda: commander.publisher.matched_count)
            for _ in range(2):
                commander.turn_on()
            assert len(requests) == (2 if service else 0)
            if service:
                with pytest.raises(DriverError, match=f"not take twists: /left/servo_node/{service} was refused"):
                    commander.turn_on()
            if service == "switch_command_type":
                assert [request.command_type for request in requests] == [1, 1, 1]


def test_a_reset_that_fails_is_tried_again_and_one_that_does_not_answer_never(monkeypatch):
    over, requests = threading.Event(), {"fails": 0, "hangs": 0}

    def fail(_):
        requests["fails"] += 1
        return laboratory.types.make(f"{TRIGGER}_Response", success=requests["fails"] == 6, message="door open")

    def hang(_):
        requests["hangs"] += 1
        over.wait(20)
        return laboratory.types.make(f"{TRIGGER}_Response", success=True)

    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("laboratory") as laboratory, open_node("driver") as node:
            fails, hangs, nowhere = (
                ResetService(node, ResetConfig(name, timeout, attempts=3, pause=0.01), MonotonicClock(), name)
                for name, timeout in (("fails", 20), ("hangs", 0.5), ("nowhere", 0.1))
            )
            assert nowhere.missing() == ["no service nowhere (std_srvs/srv/Trigger)"]
            with pytest.raises(SafetyStop, match=r"no service nowhere .*: it is waited for") as away:
                nowhere.call()
            assert away.value.reason == "robot_away" and away.value.waits
            laboratory.create_service(TRIGGER, "fails", fail)
            with pytest.raises(SafetyStop, match="the reset failed 3 times: door open"):
                fails.call()
            fails.call()
            laboratory.create_service(TRIGGER, "hangs", hang)
            wait_until(lambda: not hangs.missing())
            message = r"has not answered: it may still be running. Look at the robot, then robo-rl rearm robot=hangs"
            with pytest.raises(SafetyStop, match=rf"did not answer within 0.5 s.*{message}"):
                hangs.call()
            again = ResetService(node, ResetConfig("hangs", 20), MonotonicClock(), "hangs")
            for service in (hangs, again):  # as an actor that was started again
                with pytest.raises(SafetyStop, match=message) as unanswered:
                    service.call()
                assert unanswered.value.reason == "reset_unanswered" and unanswered.value.waits
            assert requests == {"fails": 6, "hangs": 1}
            over.set()
            ResetLatch("hangs").release()  # a person has looked
            assert ResetLatch("hangs").take() is None  # another driver waits for one that is under way
            threading.Timer(0.3, ResetLatch("hangs").release).start()
            wait_until(lambda: not again.missing())
            again.call()
    assert requests == {"fails": 6, "hangs": 2}


def test_a_second_server_beside_the_one_that_resets_is_not_called(monkeypatch):
    """A robot that was brought up twice has two servers. Both would receive a request and move the robot."""
    over, requests = threading.Event(), []

    def serve(node, name):
        def answer(_):
            requests.append(name)
            over.wait(20)
            return node.types.make(f"{TRIGGER}_Response", success=True)

        node.create_service(TRIGGER, "home", answer)

    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("first") as first, open_node("driver") as node, ThreadPoolExecutor(1) as pool:
            reset = ResetService(node, ResetConfig("home", 20), MonotonicClock(), "twice")
            serve(first, "first")
            wait_until(lambda: not reset.missing())
            under_way = pool.submit(reset.call)
            wait_until(lambda: requests)
            with open_node("second") as second:
                serve(second, "second")
                with pytest.raises(SafetyStop, match=r"service home .* has 2 servers, and each would move the robot"):
                    under_way.result(20)
                over.set()
                with pytest.raises(SafetyStop, match="end all but one"):
                    reset.call()
            wait_until(lambda: not reset.missing())
            with pytest.raises(SafetyStop, match="may still be running"):
                reset.call()
            ResetLatch("twice").release()  # a person has looked
            reset.call()
    assert requests == ["first", "first"]


def test_what_takes_commands_is_turned_on_at_the_start_and_after_each_reset(monkeypatch):
    inner, turns = patient_driver(), []
    with free_domain() as environment, virtual_robot(environment, "virtual.watchdog.stop_after=20"):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(inner._body, "turn_on", lambda: turns.append("on"))
        try:
            inner.connect()
            assert len(turns) == 1
            begin(inner)
            assert len(turns) >= 2

            def refuse():
                raise DriverError("it was refused")

            monkeypatch.setattr(inner._body, "turn_on", refuse)
            with pytest.raises(SafetyStop, match="it was refused"):
                inner.reset(0)
        finally:
            inner.close()


def test_joint_actions_move_the_joints_of_the_virtual_robot(monkeypatch):
    space = "task.controller.action_space=joint_delta"
    topic = "robot.command.topic=forward_position_controller/commands"
    inner = patient_driver(space, "robot.command.kind=joint_positions", topic)
    patience = "virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=5"
    with free_domain() as environment, virtual_robot(environment, space, *patience):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        try:
            first = begin(inner).observation["state"][:7]
            action = np.zeros(7, np.float32)
            action[6] = -1.0
            for _ in range(5):
                step = inner.step(action)
            moved = step.observation["state"][:7] - first
            assert moved[6] < -0.2
            assert np.abs(moved[:6]).max() < 0.05
        finally:
            inner.close()


def test_names_and_parameters_of_the_ros_command_line(monkeypatch):
    """As ros2 run gives them, to a robot in a process of its own; the driver finds it by the same names."""
    ros = (
        "--ros-args",
        "-r",
        "__ns:=/left",
        "-r",
        "__node:=arm",
        "-r",
        "joint_states:=joints",
        "-p",
        "state_rate:=120.0",
    )
    with free_domain() as environment, virtual_robot(environment, "virtual.watchdog.stop_after=20", *ros):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with open_node("lab") as node:
            wait_until(lambda: {"/left/joints", "/left/task/rewards"} <= node.graph.topics.keys())
            wait_until(lambda: "/left/arm" in node.graph.nodes)
            assert "/tf" in node.graph.topics and "/left/joint_states" not in node.graph.topics
            kind = "rcl_interfaces/srv/GetParameters"
            client = node.create_client(kind, "/left/arm/get_parameters")
            assert client.wait(20.0)
            answer = client.call(node.types.make(f"{kind}_Request", names=["state_rate"]), 20.0)
            assert answer.values[0].double_value == 120.0
        inner = patient_driver()
        monkeypatch.setenv("ROBO_RL_ROS_ARGS", "-r __ns:=/left -r joint_states:=joints")
        try:
            begin(inner)
        finally:
            inner.close()
