"""Controllers of ros2_control: the driver switches them at the virtual robot's controller manager, over real DDS."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from robo_rl.core import DriverError
from robo_rl.drivers.ros2 import Node, open_node

from ..robot_rig import begin, composed, driver, virtual_robot
from ..ros2_domain import free_domain

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
def domain(monkeypatch) -> Iterator[dict[str, str]]:
    with free_domain() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment


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

        unaware = driver(composed("~robot.sources.wrench", "robot.unmeasured=[wrist_]"))
        try:
            heights = [begin(unaware).observation["state"][16]]
            for _ in range(3):
                heights.append(unaware.step(UP).observation["state"][16])
            assert np.ptp(heights) < 0.002, "nobody obeys"
        finally:
            unaware.close()

        backend = driver(composed(f"robot.controllers.active=[{IMPEDANCE},{broadcaster}]"))
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


def test_what_cannot_be_switched_is_said_and_nothing_is(domain, manager):
    with virtual_robot(domain, *PATIENT):
        before = manager.active()
        unknown = manager.switch(["no_such"], [IMPEDANCE])
        assert not unknown.ok and unknown.message == "there is no controller no_such"
        assert "is active already" in manager.switch([IMPEDANCE], []).message
        assert manager.active() == before
        assert manager.switch(["no_such"], ["gripper_controller"], strictness=1).ok, "the best that can be done"
        assert manager.active() == before - {"gripper_controller"}
        backend = driver(composed("robot.controllers.active=[cartesian_impedance]"))
        with pytest.raises(DriverError, match=r"no controller 'cartesian_impedance' .*: did you mean 'cartesian_imp"):
            backend.reset(0)
        backend.close()
        backend = driver(composed(ACTIVE, "robot.controllers.manager=manager", "robot.start_timeout=3"))
        with pytest.raises(DriverError, match="no service manager/list_controllers; no service manager/switch_c"):
            backend.reset(0)
        backend.close()


def test_a_start_that_fails_gives_controllers_back(domain, manager):
    with virtual_robot(domain, *PATIENT):
        assert manager.switch([], [IMPEDANCE]).ok
        found = manager.active()
        backend = driver(composed(ACTIVE, "robot.sources.twist.topic=nowhere", "robot.start_timeout=3"))
        with pytest.raises(DriverError, match="nobody publishes /nowhere"):
            backend.reset(0)
        assert manager.active() == found
        backend.close()
