"""Trajectories of the virtual robot, and what ends them."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import ManualClock
from robo_rl.drivers.virtual.config import VirtualRobotConfig
from robo_rl.drivers.virtual.robot import VirtualRobot
from robo_rl.drivers.virtual.topics import DEAF_TICKS
from robo_rl.sim import make_backend
from robo_rl.sim.config import ControllerConfig

from ..rigs.robot_rig import Recorder

TURN_SECONDS = 0.01
CONTROLLER = "joint_trajectory_controller"


class Node(Recorder):
    """The virtual robot's node; what others ask of it is asked by the tests."""

    parameters = SimpleNamespace(declare=lambda *_, **__: None)


class Rig:
    """A virtual robot that has switched to trajectories, with the loop and the node's thread in the tests' hands."""

    def __init__(self, node: Node) -> None:
        backend = make_backend("reach", controller=ControllerConfig(action_space="joint_delta"))
        backend.reset(0)
        self.node, self.clock, self.arm = node, ManualClock(10**9), backend.as_robot()
        self.robot = VirtualRobot(VirtualRobotConfig(), self.arm, self.clock)
        self.ask("reset")
        request = {"activate_controllers": [CONTROLLER], "deactivate_controllers": ["forward_position_controller"]}
        kind = "controller_manager_msgs/srv/SwitchController_Request"
        assert self.node.taking["controller_manager/switch_controller"](self.node.types.make(kind, **request)).ok
        self.turn(DEAF_TICKS)

    def ask(self, service: str) -> None:
        """Call a Trigger service, which the loop answers."""
        self.while_turning(lambda: self.node.taking[service](None))

    def while_turning(self, call: Callable[[], Any]) -> Any:
        """Return what ``call`` does in a thread of its own while the robot turns."""
        with ThreadPoolExecutor(1) as pool:
            called = pool.submit(call)
            while not called.done():
                self.turn()
        return called.result()

    def turn(self, times: int = 1) -> None:
        """Have the loop and the node's thread take turns."""
        for _ in range(times):
            for timer in self.node.timers:
                timer()
            self.robot._obey(self.clock.now_ns())
            self.arm.advance(round(TURN_SECONDS / self.arm.tick))
            self.robot._topics.publish_state()
            self.clock.advance_ns(round(TURN_SECONDS * 1e9))
            time.sleep(TURN_SECONDS)

    def joints(self) -> np.ndarray:
        positions: np.ndarray = self.arm.measure()["joint_positions"].copy()
        return positions

    def trajectory(self) -> Any:
        """Return one that turns the first joint for six seconds."""
        target = self.joints()
        target[0] += 1.5
        point = {"positions": target, "time_from_start": {"sec": 6}}
        names = list(self.arm.joints)
        return self.node.types.make("trajectory_msgs/msg/JointTrajectory", joint_names=names, points=[point])


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    node = Node()
    monkeypatch.setattr("robo_rl.drivers.virtual.robot.open_node", lambda *_: node)
    return Rig(node)


def test_no_trajectory_outlives_the_emergency_stop(rig: Rig) -> None:
    before = rig.joints()
    rig.node.taking[f"{CONTROLLER}/joint_trajectory"](rig.trajectory())
    rig.turn(10)
    assert rig.joints()[0] > before[0] + 0.005
    for service in ("emergency_stop", "rearm", "reset"):
        rig.ask(service)
    before = rig.joints()
    rig.turn(20)
    np.testing.assert_allclose(rig.joints(), before, atol=2e-3)


def test_no_trajectory_goes_on_in_the_next_episode(rig: Rig) -> None:
    rig.node.taking[f"{CONTROLLER}/joint_trajectory"](rig.trajectory())
    rig.turn(5)
    rig.ask("reset")
    before = rig.joints()
    rig.turn(20)
    np.testing.assert_allclose(rig.joints(), before, atol=2e-3)


def test_a_goal_says_what_ended_it(rig: Rig) -> None:
    told: list[str] = []
    request = rig.node.types.make("control_msgs/action/FollowJointTrajectory_Goal", trajectory=rig.trajectory())
    goal = SimpleNamespace(
        request=request,
        cancel_requested=False,
        publish_feedback=lambda _: None,
        abort=lambda: told.append("aborted"),
        canceled=lambda: told.append("canceled"),
    )
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(rig.node.taking[f"{CONTROLLER}/follow_joint_trajectory"], goal)
        rig.turn(5)
        rig.ask("emergency_stop")
        wait([done], 5)
        goal.cancel_requested = True  # its thread ends in any case
        result = done.result()
    assert told == ["aborted"]
    assert (result.error_code, result.error_string) == (-1, "the emergency stop is pressed")
