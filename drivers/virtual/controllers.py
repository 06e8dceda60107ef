"""Controller manager of the virtual robot, with the services and rules of ros2_control."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ros2 import Node

LIST = "controller_manager_msgs/srv/ListControllers"
SWITCH = "controller_manager_msgs/srv/SwitchController"
BEST_EFFORT = 1
"""Strictness of SwitchController that skips impossible switches. All other values switch everything or nothing."""


@dataclass(frozen=True)
class Controller:
    """Controller, or a broadcaster, which claims no interfaces.

    Attributes:
        name: name, which also prefixes its topics.
        type: type of its plug-in.
        interfaces: interfaces that it commands, such as ``JOINT/position``.
    """

    name: str
    type: str
    interfaces: tuple[str, ...] = ()

    @property
    def joints(self) -> set[str]:
        """Joints that it commands. No two active controllers command the same joint."""
        return {interface.rpartition("/")[0] for interface in self.interfaces}


def arm_controllers(joints: Sequence[str], fingers: Sequence[str], takes: str) -> list[Controller]:
    """Return the controllers of an arm.

    Args:
        joints: joints of the arm.
        fingers: joints of its gripper, if any.
        takes: kind of its commands: ``pose`` or ``joints``.
    """
    controllers = [
        Controller("joint_state_broadcaster", "joint_state_broadcaster/JointStateBroadcaster"),
        Controller("cartesian_pose_broadcaster", "pose_broadcaster/PoseBroadcaster"),
        Controller("force_torque_sensor_broadcaster", "force_torque_sensor_broadcaster/ForceTorqueSensorBroadcaster"),
    ]
    if takes == "pose":
        controllers.append(
            _commanding("cartesian_impedance_controller", "crisp_controllers/CartesianController", joints, "effort")
        )
    else:
        forward = "forward_command_controller/ForwardCommandController"
        trajectories = "joint_trajectory_controller/JointTrajectoryController"
        controllers += [
            _commanding("forward_position_controller", forward, joints, "position"),
            _commanding("forward_velocity_controller", forward, joints, "velocity"),
            _commanding("forward_effort_controller", forward, joints, "effort"),
            _commanding("joint_trajectory_controller", trajectories, joints, "position"),
        ]
    if fingers:
        gripper = "position_controllers/GripperActionController"
        controllers.append(_commanding("gripper_controller", gripper, fingers, "position"))
    return controllers


def _commanding(name: str, kind: str, joints: Sequence[str], interface: str) -> Controller:
    return Controller(name, kind, tuple(f"{joint}/{interface}" for joint in joints))


class ControllerManager:
    """Services ``controller_manager/list_controllers`` and ``switch_controller``.

    Args:
        node: node of the virtual robot.
        controllers: all controllers. Initially those are active that command no joint of an earlier one.
        switched: called in the node's thread after each switch.
    """

    def __init__(self, node: Node, controllers: Sequence[Controller], switched: Callable[[], None]) -> None:
        self._node, self._switched = node, switched
        self._controllers = {controller.name: controller for controller in controllers}
        active: list[Controller] = []
        for controller in controllers:
            active += [] if any(controller.joints & other.joints for other in active) else [controller]
        self._active = frozenset(controller.name for controller in active)  # new on each switch: threads read it
        node.create_service(LIST, "controller_manager/list_controllers", self._list)
        node.create_service(SWITCH, "controller_manager/switch_controller", self._switch)

    def is_active(self, name: str) -> bool:
        """Return whether a controller executes commands, or a broadcaster publishes."""
        return name in self._active

    def _list(self, request: Any) -> Any:
        states = []
        for name, controller in self._controllers.items():
            interfaces, active = list(controller.interfaces), name in self._active
            states.append(
                {
                    "name": name,
                    "type": controller.type,
                    "state": "active" if active else "inactive",
                    "required_command_interfaces": interfaces,
                    "claimed_interfaces": interfaces if active else [],
                }
            )
        return self._node.types.make(f"{LIST}_Response", controller=states)

    def _switch(self, request: Any) -> Any:
        refusals: list[str] = []
        stop = self._select_switchable(request.deactivate_controllers, True, refusals)
        start = self._select_switchable(request.activate_controllers, False, refusals)
        active = self._active - set(stop)
        for name in start:
            joints = self._controllers[name].joints
            conflicts = [other for other in active if joints & self._controllers[other].joints]
            if conflicts:
                refusals.append(f"{name} commands joints that {', '.join(sorted(conflicts))} has claimed")
            else:
                active |= {name}
        ok = not refusals or request.strictness == BEST_EFFORT
        if ok and active != self._active:
            self._active = active
            self._switched()
        response = self._node.types.make(f"{SWITCH}_Response", ok=ok)
        if hasattr(response, "message"):  # Humble's response has no message
            response.message = "; ".join(refusals)
        return response

    def _select_switchable(self, names: Sequence[str], active: bool, refusals: list[str]) -> list[str]:
        """Return those of ``names`` in the state ``active``; append a reason to ``refusals`` for each other name."""
        for name in names:
            if name not in self._controllers:
                refusals.append(f"there is no controller {name}")
            elif (name in self._active) is not active:
                refusals.append(f"{name} is {'inactive' if active else 'active'} already")
        return [name for name in names if name in self._controllers and (name in self._active) is active]
