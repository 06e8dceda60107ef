"""Activation of MoveIt Servo, which ignores twists until its command type is set."""

import time

from robo_rl.core import DriverError

from ..ros2 import Node

COMMAND_TYPE = "moveit_msgs/srv/ServoCommandType"
TWIST = 1
"""Command type of ServoCommandType."""
TRIGGER = "std_srvs/srv/Trigger"
DISCOVERY_SECONDS = 1.0
"""Longest wait for the services of a node whose subscription is known [s]."""
ANSWER_SECONDS = 15.0
"""Longest wait for an answer [s]: Servo of ROS 2 Humble waits 10 s for joint states."""


class ServoSwitch:
    """Switch that makes MoveIt Servo accept twists. It does nothing for a twist controller without Servo's services.

    Args:
        node: node of the driver.
        topic: fully qualified topic of the twists, below the name of Servo's node.
    """

    def __init__(self, node: Node, topic: str) -> None:
        self._node = node
        servo = topic.rpartition("/")[0]
        # of Jazzy and of Humble
        self._types = {f"{servo}/switch_command_type": COMMAND_TYPE, f"{servo}/start_servo": TRIGGER}
        self._service: str | None = None  # None: not looked up yet; empty: no such service

    def turn_on(self) -> None:
        """Set Servo's command type.

        Raises:
            DriverError: if it refuses or does not answer.
        """
        if self._service is None:
            self._service = self._find()
            if self._service:
                self._client = self._node.create_client(self._types[self._service], self._service)
        if not self._service:
            return
        kind = self._types[self._service]
        fields = {"command_type": TWIST} if kind == COMMAND_TYPE else {}
        answer = self._client.call(self._node.types.make(f"{kind}_Request", **fields), ANSWER_SECONDS)
        if not answer.success:
            raise DriverError(f"MoveIt Servo does not take twists: {self._service} was refused; its log says why")

    def _find(self) -> str:
        """Return Servo's service if it exists; services are discovered a little later than the subscription."""
        deadline = time.monotonic() + DISCOVERY_SECONDS
        while True:
            services = self._node.graph.services
            service = next((name for name in self._types if name in services), "")
            if service or time.monotonic() > deadline:
                return service
            time.sleep(0.05)
