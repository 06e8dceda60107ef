"""Controllers of ros2_control: the driver switches them at the virtual robot's controller manager, over real DDS."""

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from robo_rl.core import DriverError, SafetyStop
from robo_rl.drivers.ros2 import GoalStatus, Node, open_node

from ..rigs.robot_rig import begin, patient_driver, virtual_robot, wait_until

MANAGER = "controller_manager_msgs/srv"
PATIENT = ("virtual.watchdog.hold_after=1", "virtual.watchdog.stop_after=20")
UP = np.array([0, 0, 1], np.float32)
IMPEDANCE = "cartesian_impedance_controller"
ACTIVE = f"robot.controllers.active=[{IMPEDANCE}]"


class Manager:
    """Another node that looks at controllers, and switches them."""

    def __init__(self, node: Node) -> None:
        self._make = node.types.make
        self._lister = node.create_client(f"{MANAGER}/ListControllers", "controller_manager/list_controllers")
        self._switcher = node.create_client(f"{MANAGER}/SwitchController", "controller_manager/switch_controller")

    def active(self) -> set[str]:
        assert self._lister.wait(20)
        answer = self._lister.call(self._make(f"{MANAGER}/ListControllers_Request"), 20)
        return {each.name for each in answer.controller if each.state == "active"}

    def switch(self, start: list[str], stop: list[str], strictness: int = 2) -> Any:
        assert self._switcher.wait(20)
        fields = {"activate_controllers": start, "deactivate_controllers": stop, "strictness": strictness}
        return self._switcher.call(self._make(f"{MANAGER}/SwitchController_Request", **fields), 20)


@pytest.fixture
def manager(domain) -> Iterator[Manager]:
    with open_node("bystander") as node:
        yield Manager(node)


def test_an_inactive_controller_is_activated_after_each_reset_and_given_back(domain, manager, capsys):
    with virtual_robot(domain, *PATIENT):
        everything = manager.active()
        broadcaster = "force_torque_sensor_broadcaster"
        assert everything > {IMPEDANCE, broadcaster, "joint_state_broadcaster"}
        assert manager.switch([], [IMPEDANCE, broadcaster]).ok
        found = manager.active()
        assert found == everything - {IMPEDANCE, broadcaster}

        unaware = patient_driver("~robot.sources.wrench", "robot.unmeasured=[wrist_]")
        try:
            heights = [begin(unaware).observation["state"][16]]
            for _ in range(3):
                heights.append(unaware.step(UP).observation["state"][16])
            assert np.ptp(heights) < 0.002, "nobody obeys"
        finally:
            unaware.close()

        backend = patient_driver(f"robot.controllers.active=[{IMPEDANCE},{broadcaster}]")
        try:
            height = begin(backend).observation["state"][16]
            assert manager.active() == everything, "the wrench is published again, too"
            for _ in range(3):
                step = backend.step(UP)
            assert step.observation["state"][16] > height + 0.01
            assert manager.switch([], [IMPEDANCE]).ok  # as a reset by another controller would leave it
            begin(backend)
            assert manager.active() == everything
        finally:
            backend.close()
        assert manager.active() == found
        assert "not given back" not in capsys.readouterr().out


def test_what_cannot_be_switched_is_said_and_nothing_is(domain, manager, monkeypatch):
    with virtual_robot(domain, *PATIENT):
        before = manager.active()
        unknown = manager.switch(["no_such"], [IMPEDANCE])
        assert not unknown.ok and unknown.message == "there is no controller no_such"
        assert "is active already" in manager.switch([IMPEDANCE], []).message
        assert manager.active() == before
        assert manager.switch(["no_such"], ["gripper_controller"], strictness=1).ok, "the best that can be done"
        assert manager.active() == before - {"gripper_controller"}
        backend = patient_driver("robot.controllers.active=[cartesian_impedance]")
        with pytest.raises(DriverError, match=r"no controller 'cartesian_impedance' .*: did you mean 'cartesian_imp"):
            backend.reset(0)
        backend.close()
        backend = patient_driver(ACTIVE, "robot.controllers.manager=manager", "robot.start_timeout=3")
        missing = "no service /manager/{0}: there is /controller_manager/{0}"
        with pytest.raises(
            DriverError, match="; ".join(map(missing.format, ("list_controllers", "switch_controller")))
        ):
            backend.reset(0)
        backend.close()
        # No Fast DDS is here: Cyclone's own mark is taken for its.
        monkeypatch.setattr("robo_rl.drivers.ros2.dds.endpoints.FAST_DDS", b"\x01\x10")
        backend = patient_driver(ACTIVE, "robot.start_timeout=2")
        with pytest.raises(DriverError, match=r"no service .*; services of .*/virtual_robot .*need rmw_cyclonedds_cpp"):
            backend.reset(0)
        backend.close()


def test_a_start_that_fails_gives_controllers_back(domain, manager):
    with virtual_robot(domain, *PATIENT):
        assert manager.switch([], [IMPEDANCE]).ok
        found = manager.active()
        backend = patient_driver(ACTIVE, "robot.sources.twist.topic=nowhere", "robot.start_timeout=3")
        with pytest.raises(DriverError, match="nobody publishes /nowhere"):
            backend.reset(0)
        assert manager.active() == found
        backend.close()


JOINTS = "task.controller.action_space=joint_delta"
LAST = np.array([0, 0, 0, 0, 0, 0, -1], np.float32)
KINDS = {
    "joint_velocities": ("forward_velocity_controller", "commands"),
    "joint_efforts": ("forward_effort_controller", "commands"),
    "joint_trajectory": ("joint_trajectory_controller", "joint_trajectory"),
    "joint_trajectory_action": ("joint_trajectory_controller", "follow_joint_trajectory"),
}


def commanding(kind: str, *options: str) -> Any:
    """Return a driver of joint actions by a kind of command, whose controller is not the one that is active."""
    controller, topic = KINDS[kind]
    words = [f"robot.command.kind={kind}", f"robot.command.topic={controller}/{topic}", "task.max_episode_steps=200"]
    if kind == "joint_efforts":
        words += ["robot.command.stiffness=[60]", "robot.command.damping=[6]", "robot.command.effort=[20]"]
    return patient_driver(JOINTS, *words, f"robot.controllers.active=[{controller}]", *options)


@pytest.mark.parametrize("kind", KINDS)
def test_joint_actions_move_the_arm_by_every_kind_of_command(domain, manager, kind):
    with virtual_robot(domain, JOINTS, *PATIENT):
        assert "forward_position_controller" in manager.active()
        backend = commanding(kind)
        try:
            first = begin(backend).observation["state"][:7]
            assert KINDS[kind][0] in manager.active() and "forward_position_controller" not in manager.active()
            moved = np.zeros(7)
            for _ in range(30):  # fewer on a machine that has time
                step = backend.step(LAST)
                moved = step.observation["state"][:7] - first
                if moved[6] < -0.2:
                    break
            assert moved[6] < -0.2
            assert np.abs(moved[:6]).max() < 0.06
            fastest = np.inf
            for _ in range(30):
                step = backend.step(np.zeros(7, np.float32))
                fastest = np.abs(step.observation["state"][7:14]).max()
                if fastest < 0.15:
                    break
            assert fastest < 0.15, "it comes to rest"
        finally:
            backend.close()
        assert "forward_position_controller" in manager.active() and KINDS[kind][0] not in manager.active()


@pytest.mark.parametrize("kind", ["joint_velocities", "joint_efforts"])
def test_zeros_follow_when_the_policy_is_late(domain, kind):
    """Such controllers go on with the last command; this robot's own watchdog is too slow to be what stops it."""
    with virtual_robot(domain, JOINTS, *PATIENT), open_node("bystander") as node:
        sent: list[np.ndarray] = []
        numbers = "std_msgs/msg/Float64MultiArray"
        node.create_subscription(numbers, "/".join(KINDS[kind]), lambda message: sent.append(np.array(message.data)))
        backend = commanding(kind)
        try:
            begin(backend)
            for ends in (lambda: None, lambda: backend.stop("an emergency")):
                sent.clear()
                backend.step(LAST)
                ends()
                wait_until(lambda: sent and not sent[-1].any())
                assert min(values[6] for values in sent) < -0.1
                begin(backend)
            assert max(np.abs(values).max() for values in sent) <= (20.0 if kind == "joint_efforts" else 2.7)
        finally:
            backend.close()


def test_a_goal_that_is_refused_ends_the_episode(domain, manager):
    with virtual_robot(domain, JOINTS, *PATIENT):
        backend = commanding("joint_trajectory_action")
        try:
            begin(backend)
            backend.step(LAST)
            assert manager.switch([], ["joint_trajectory_controller"]).ok
            with pytest.raises(SafetyStop, match=r"aborted with code -1: the controller (is not active|was deact)"):
                for _ in range(20):
                    backend.step(LAST)
            begin(backend)
            for _ in range(3):
                backend.step(LAST)
        finally:
            backend.close()


def test_trajectories_of_others_are_followed_point_by_point(domain, manager):
    """As MoveIt sends them: joints in any order, several points, to be cancelled."""
    action = "control_msgs/action/FollowJointTrajectory"
    with virtual_robot(domain, JOINTS, *PATIENT), open_node("planner") as node:
        make = node.types.make
        assert manager.switch(["joint_trajectory_controller"], ["forward_position_controller"]).ok
        reset = node.create_client("std_srvs/srv/Trigger", "reset")
        assert reset.wait(20) and reset.call(make("std_srvs/srv/Trigger_Request"), 20).success
        joints = node.create_subscription("sensor_msgs/msg/JointState", "joint_states")
        client = node.create_action_client(action, "joint_trajectory_controller/follow_joint_trajectory")
        assert client.wait(20)
        wait_until(joints.latest)
        names = list(joints.latest()[0].name)[:7]

        def positions() -> np.ndarray:
            return np.array(joints.latest()[0].position)[:7]

        feedback: list[Any] = []

        def goal(*points: np.ndarray, joint_names: list[str] = names, seconds: int = 1, first: int = 1) -> Any:
            fields = [
                {"positions": point, "time_from_start": {"sec": seconds * number}}
                for number, point in enumerate(points, first)
            ]
            trajectory = {"joint_names": joint_names, "points": fields}
            return client.send_goal(make(f"{action}_Goal", trajectory=trajectory), feedback.append, timeout_s=20)

        start = positions()
        target = start + np.array([0.2, 0, 0, 0, 0, 0, 0.3])
        planned = (start[::-1], target[::-1], (target + 0.1)[::-1])
        status, result = goal(*planned, joint_names=names[::-1], first=0).result(30)
        assert (status, result.error_code) == (GoalStatus.SUCCEEDED, 0)
        wait_until(lambda: any(np.abs(now.desired.positions - target).max() < 0.1 for now in feedback))
        newest = feedback[-1]
        assert list(newest.joint_names) == names
        assert newest.error.positions == pytest.approx(newest.desired.positions - newest.actual.positions)
        wait_until(lambda: np.abs(positions() - target - 0.1).max() < 0.02)
        for refused, message in (
            (goal(target, joint_names=["a", "b"]), "expected the joints joint1, .*, got a, b"),
            (goal(target[:3]), "a position of each joint"),
            (goal(target, target, seconds=0), "times from 0 on that increase"),
            (goal(target, seconds=-1), "times from 0 on that increase"),
            (goal(target * np.nan), "expected finite positions"),
        ):
            status, result = refused.result(30)
            assert status == GoalStatus.ABORTED and re.search(message, result.error_string)
        long = goal(start, seconds=60)
        time.sleep(0.5)
        assert long.cancel(20)
        assert long.result(30)[0] == GoalStatus.CANCELED
        older, newer = goal(start, seconds=60), goal(positions())
        assert older.result(30)[1].error_string == "a newer trajectory has taken its place"
        assert newer.result(30)[0] == GoalStatus.SUCCEEDED
