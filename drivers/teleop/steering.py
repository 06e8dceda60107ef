"""Remote control of a training or recording over ROS 2: services for its buttons, and diagnostics."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from robo_rl.core import Clock, MonotonicClock

from ..ros2 import Message, open_node
from ..stop_topic import listen_for_stop
from .config import SteeringConfig

TRIGGER = "std_srvs/srv/Trigger"
DIAGNOSTICS = "diagnostic_msgs/msg/DiagnosticArray"
BUTTONS = {"reset": "discard", "mark_success": "success", "mark_failure": "failure"}
"""Services that press a button in any state of the robot."""

DIAGNOSTICS_SECONDS = 1.0
SILENT_SECONDS = 3.0
"""Time without an update after which the control loop counts as stopped, as it is in an evaluation [s]."""
OK, WARN, ERROR = 0, 1, 2


class SteeringNode:
    """Node with services for buttons and with diagnostics, in threads beside the control loop.

    Args:
        config: names of the node and its services.
        emergency_stop: called at once, in any state of the loop; returns why robots are not stopped, or an empty text
            if they are. None: only the button is reported.
        clock: monotonic clock.
        marks: whether there are episodes to reset and mark, and a robot that moves.
    """

    def __init__(
        self,
        config: SteeringConfig,
        emergency_stop: Callable[[], str] | None = None,
        clock: Clock | None = None,
        marks: bool = True,
    ) -> None:
        self._name, self._emergency_stop = config.name, emergency_stop
        self._clock = clock or MonotonicClock()
        self._lock = threading.Lock()
        self._pressed: set[str] = set()
        self._state, self._paused, self._alarm = "begins", False, False
        self._lifecycle = "unconfigured"
        self._facts: dict[str, str] = {}
        self._updated_ns = self._clock.now_ns()
        self._node = open_node(config.name, config.namespace, config.implementation)
        try:
            services: Mapping[str, Callable[[], tuple[bool, str]]] = {
                "start": lambda: self._pause(False),
                "pause": lambda: self._pause(True),
                **({"emergency_stop": self._stop} if marks or emergency_stop is not None else {}),
                **{name: self._make_press(button) for name, button in BUTTONS.items() if marks},
            }
            if "emergency_stop" in services:
                listen_for_stop(self._node, f"{config.name}/emergency_stop", self._stop)
            for name, action in services.items():
                self._serve(name, action)
            self._diagnostics = self._node.create_publisher(DIAGNOSTICS, "diagnostics")
            self._node.create_timer(DIAGNOSTICS_SECONDS, self._publish)
        except BaseException:
            self._node.close()
            raise

    def offer(self, name: str, value: bool | int | float | str, change: Callable[[Any], None] | None = None) -> None:
        """Declare a setting as a parameter of the node.

        Args:
            name: name of the parameter.
            value: its value.
            change: called in another thread with each new value; rejects a value by raising ConfigError. None: the
                parameter is read-only.
        """
        self._node.parameters.declare(name, value, change, read_only=change is None)

    def take_buttons(self) -> frozenset[str]:
        """Return the buttons that were pressed since the last call."""
        with self._lock:
            pressed, self._pressed = frozenset(self._pressed), set()
            self._paused ^= "pause" in pressed
        return pressed

    def report(self, state: str, paused: bool, alarm: bool, facts: Mapping[str, str]) -> None:
        """Set the robot's activity for diagnostics; ``alarm`` means that the robot was stopped."""
        with self._lock:
            self._state, self._paused, self._alarm, self._facts = state, paused, alarm, dict(facts)
            self._lifecycle = "inactive" if paused or alarm else "active"
            self._updated_ns = self._clock.now_ns()

    def close(self) -> None:
        """Publish the end and leave ROS 2. May be called twice."""
        with self._lock:
            is_finalized, self._lifecycle = self._lifecycle == "finalized", "finalized"
        if not is_finalized:
            self._publish()
        self._node.close()

    def _serve(self, name: str, action: Callable[[], tuple[bool, str]]) -> None:
        def answer(_: Message) -> Message:
            success, message = action()
            return self._node.types.make(f"{TRIGGER}_Response", success=success, message=message)

        self._node.create_service(TRIGGER, f"{self._name}/{name}", answer)

    def _make_press(self, button: str) -> Callable[[], tuple[bool, str]]:
        def press() -> tuple[bool, str]:
            with self._lock:
                self._pressed.add(button)
                return True, f"{button} is told; now: {self._state}"

        return press

    def _pause(self, wanted: bool) -> tuple[bool, str]:
        """Press the pause button, which toggles, if that leads to the state ``wanted``."""
        with self._lock:
            if (self._paused != ("pause" in self._pressed)) == wanted:
                stands = f", but it does not move; {self._state}" if self._alarm else ""
                return False, "it is paused already" if wanted else f"it is not paused{stands}"
            self._pressed ^= {"pause"}
            if not wanted and self._alarm:
                return True, f"the pause ends, but the robot does not move; {self._state}"
            return True, "it pauses after this step" if wanted else "it goes on"

    def _stop(self) -> tuple[bool, str]:
        problem = "" if self._emergency_stop is None else self._emergency_stop()
        with self._lock:
            self._pressed.add("emergency_stop")
        if self._emergency_stop is None:
            return True, "this robot stops; it has no latched emergency stop (safety=none)"
        return not problem, problem or "robots are stopped until a person runs robo-rl rearm"

    def _publish(self) -> None:
        with self._lock:
            message, facts = self._state, {"lifecycle": self._lifecycle, **self._facts}
            level = ERROR if self._alarm else WARN if self._paused else OK
            silent = (self._clock.now_ns() - self._updated_ns) * 1e-9
        if silent > SILENT_SECONDS:
            level, message = max(level, WARN), f"{message}; its control loop stands still for {silent:.0f} s"
        values: list[Any] = [{"key": key, "value": value} for key, value in facts.items()]
        status = {"level": level, "name": f"{self._node.name}: control loop", "message": message, "values": values}
        header = {"stamp": self._node.now()}
        self._diagnostics.publish(self._node.types.make(DIAGNOSTICS, header=header, status=[status]))
