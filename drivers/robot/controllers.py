"""Switching of ros2_control controllers while a robot is driven."""

from collections.abc import Iterable, Sequence
from typing import Any

from robo_rl.core import DriverError, announce, nearest

from ..ros2 import Node
from .config import ControllersConfig
from .namesakes import served_instead

LIST = "controller_manager_msgs/srv/ListControllers"
SWITCH = "controller_manager_msgs/srv/SwitchController"
STRICT = 2
"""Strictness of SwitchController: switch all controllers or none."""


class ControllerSwitch:
    """Switch that activates the configured controllers and restores the earlier ones at the end.

    Args:
        node: node of the driver.
        config: names of the controllers; without names, no controller manager is needed.
    """

    def __init__(self, node: Node, config: ControllersConfig) -> None:
        self._node, self._config = node, config
        # names of the controllers that the first switch activated and deactivated
        self._switched: tuple[list[str], list[str]] | None = None
        if config.active:
            self._list = node.create_client(LIST, f"{config.manager}/list_controllers")
            self._switch = node.create_client(SWITCH, f"{config.manager}/switch_controller")

    def missing(self) -> list[str]:
        """Return the services that are not available."""
        if not self._config.active:
            return []
        clients = {LIST: self._list, SWITCH: self._switch}
        return [
            f"no service {client.service}{served_instead(self._node, client.service, kind)}"
            for kind, client in clients.items()
            if not client.wait(0.0)
        ]

    def activate(self) -> None:
        """Activate the configured controllers, and deactivate controllers that command the same joints.

        Raises:
            DriverError: if a controller is not loaded or not configured, or if the manager refuses or does not answer.
        """
        if not self._config.active:
            return
        manager, listed = self._config.manager, self._listed()
        for name in self._config.active:
            if name not in listed:
                raise DriverError(
                    f"{manager} has no controller {name!r} (robot.controllers.active): {nearest(name, listed)}. It is "
                    f"loaded by: ros2 run controller_manager spawner {name} --inactive"
                )
            if (state := listed[name].state) not in ("active", "inactive"):
                raise DriverError(
                    f"controller {name!r} of {manager} is {state}, expected active or inactive; try: ros2 control "
                    f"set_controller_state {name} inactive"
                )
        start = [name for name in self._config.active if listed[name].state == "inactive"]
        joints = {joint for name in start for joint in _joints(listed[name].required_command_interfaces)}
        stop = [
            name
            for name, controller in listed.items()
            if controller.state == "active"
            and name not in self._config.active
            and joints & _joints(controller.claimed_interfaces)
        ]
        if start:
            self._call_switch(start, stop)
        if self._switched is None:
            self._switched = start, stop

    def give_back(self) -> None:
        """Restore the controllers that were active before the first :meth:`activate`. Failures are printed."""
        if self._switched is None:
            return
        started, stopped = self._switched
        self._switched = None
        try:
            listed = self._listed()
            stop = [name for name in started if name in listed and listed[name].state == "active"]
            start = [name for name in stopped if name in listed and listed[name].state == "inactive"]
            if start or stop:
                self._call_switch(start, stop)
        except DriverError as error:
            announce(f"The robot's controllers were not given back: {error}")

    def _listed(self) -> dict[str, Any]:
        """Return controller_manager_msgs/msg/ControllerState by name."""
        answer = self._list.call(self._node.types.make(f"{LIST}_Request"), self._config.timeout)
        return {controller.name: controller for controller in answer.controller}

    def _call_switch(self, start: Sequence[str], stop: Sequence[str]) -> None:
        seconds = int(self._config.timeout)
        request = self._node.types.make(
            f"{SWITCH}_Request",
            activate_controllers=list(start),
            deactivate_controllers=list(stop),
            strictness=STRICT,
            activate_asap=True,
            timeout={"sec": seconds, "nanosec": round((self._config.timeout - seconds) * 1e9)},
        )
        # The manager may use its whole timeout, and the transmission of the answer takes additional time.
        answer = self._switch.call(request, 2 * self._config.timeout)
        if not answer.ok:
            reason = getattr(answer, "message", "") or "its log says why"  # Humble's answer has no message
            raise DriverError(
                f"{self._config.manager} did not activate {', '.join(start) or 'nothing'} and deactivate "
                f"{', '.join(stop) or 'nothing'}: {reason}"
            )


def _joints(interfaces: Iterable[str]) -> set[str]:
    """Return the joints of interfaces ``JOINT/position`` etc.: a joint accepts only one kind of command at a time."""
    return {interface.rpartition("/")[0] for interface in interfaces}
