"""Actions from axes and buttons, for all devices that have them."""

import math
import threading
from collections.abc import Collection, Mapping, Set
from typing import NamedTuple, Protocol

import numpy as np

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention, nearest

from .config import MappingConfig
from .keys import GRIPPER_CLOSED, GRIPPER_OPEN, action_names

NO_CONTROL = {"gripper", "deadman"}
"""Functions of buttons that control the motion instead of the run."""


class Polled(NamedTuple):
    """State of a device.

    Attributes:
        axes: deflections by name in [-1, 1]; axes without an entry are at rest. None while the device is missing.
        held: names of the held buttons.
        tapped: names of the buttons pressed since the last poll. They may be released by now, or the device missing.
        lost: whether some of the device's reports were lost. Its axes are then unknown until all are at rest.
    """

    axes: Mapping[str, float] | None
    held: Set[str] = frozenset()
    tapped: Set[str] = frozenset()
    lost: bool = False


class Buttons:
    """Buttons of a device that sends more often than it is polled: short presses between two polls count as well."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Set[str] | None = None
        self._tapped: Set[str] = frozenset()

    def update(self, held: Set[str]) -> None:
        """Update the held buttons. Buttons held in the first report do not count as tapped."""
        with self._lock:
            self._tapped |= frozenset() if self._held is None else held - self._held
            self._held = held

    def look(self, axes: Mapping[str, float] | None, lost: bool = False) -> Polled:
        """Return ``axes`` and the state of the buttons since the last poll; axes are None while the device is missing.

        ``lost``: whether some of the device's reports were lost.
        """
        with self._lock:
            tapped, self._tapped = self._tapped, frozenset()
            if axes is None or self._held is None:
                self._held = None
                return Polled(None, tapped=tapped)
            return Polled(axes, self._held, tapped, lost)


class Latch:
    """Latch that keeps the person in control for a while after the last motion.

    Args:
        seconds: time after the last motion.
        clock: monotonic clock.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._ns = round(seconds * 1e9)
        self._clock = clock
        self._until_ns: int | None = None

    def __call__(self, moving: bool) -> bool:
        """Return whether the person has control, given whether the person is moving the device now."""
        now = self._clock.now_ns()
        if moving:
            self._until_ns = now + self._ns
        return self._until_ns is not None and now <= self._until_ns


class AxisMotion:
    """Conversion of axes and buttons to an :class:`~robo_rl.core.Intervention`.

    Motion takes control, and returns it a while after it ends. With a deadman button, that button alone decides. After
    the start, after the device comes back and after lost reports, deflected axes have no effect until all axes have
    been at rest once.

    Args:
        spec: spec of the robot; its actions move an end effector or a vehicle.
        mapping: functions of axes and buttons.
        latch_seconds: see :class:`~.config.TeleopConfig`.
        clock: monotonic clock.
        axes: names of the device's axes; None: unknown.
        buttons: names of the device's buttons; None: unknown.

    Raises:
        ConfigError: if the actions move something else, the device lacks an axis or a button, or no axis moves the
            robot.
    """

    def __init__(
        self,
        spec: EnvSpec,
        mapping: MappingConfig,
        latch_seconds: float,
        clock: Clock,
        axes: Collection[str] | None = None,
        buttons: Collection[str] | None = None,
    ) -> None:
        self._names = action_names(spec)
        used = [axis.axis for axis in mapping.axes.values() if axis.axis]
        for kind, names, available in (("axis", used, axes), ("button", [*mapping.buttons.values()], buttons)):
            for name in filter(None, names):
                if available is not None and name not in available:
                    raise ConfigError(f"the device has no {kind} {name!r}: {nearest(name, available)}")
        self._axes = {name: axis for name, axis in mapping.axes.items() if name in self._names and axis.axis}
        if not self._axes:
            raise ConfigError(f"no axis of the device moves an element of the action ({', '.join(self._names)})")
        self._buttons = {name: button for name, button in mapping.buttons.items() if button}
        self._dead_zone = mapping.dead_zone
        self._latch = Latch(latch_seconds, clock)
        self._pressed: Set[str] | None = None
        self._ready = False
        self._closed = False

    @property
    def closed(self) -> bool | None:
        """Whether the person's command closes the gripper; None if the actions do not move a gripper."""
        return self._closed if "gripper" in self._names else None

    def level(self, fraction: float) -> float:
        """Return the deflection whose action is ``fraction`` of the largest."""
        return self._dead_zone + fraction * (1 - self._dead_zone)

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._closed = closed

    def intervention(self, polled: Polled, message: str = "") -> Intervention:
        """Return the person's intervention.

        While the device is missing, nothing moves and nothing is held, until it is back and has been at rest. An
        emergency stop that was tapped before still counts.

        Args:
            polled: state of the device.
            message: text for the person.
        """
        axes, pressed, tapped, lost_some = polled
        if axes is None:
            stop = tapped & {self._buttons.get("emergency_stop", "")}
            idle = self.intervention(Polled({}, tapped=stop), message)
            self._pressed, self._ready = None, False  # last, because missing axes would count as axes at rest
            return idle
        deflections = {name: self._scale_deflection(axes.get(axis.axis, 0.0)) for name, axis in self._axes.items()}
        self._ready = (self._ready and not lost_some) or not any(deflections.values())
        fresh = tapped | (set() if self._pressed is None else pressed - self._pressed)
        self._pressed = pressed
        functions = {name for name, button in self._buttons.items() if button in fresh}
        moving = self._ready and any(deflections.values())
        if "gripper" in functions and "gripper" in self._names:
            self._closed = not self._closed
            moving = True
        in_control = self._latch(moving)
        if "deadman" in self._buttons:
            in_control = self._buttons["deadman"] in pressed
        action = np.zeros(len(self._names), np.float32)
        if in_control and self._ready:
            for name, value in deflections.items():
                action[self._names.index(name)] = np.clip(value * self._axes[name].scale, -1, 1)
        if "gripper" in self._names:
            action[self._names.index("gripper")] = GRIPPER_CLOSED if self._closed else GRIPPER_OPEN
        return Intervention(action, in_control, frozenset(functions - NO_CONTROL), message)

    def _scale_deflection(self, value: float) -> float:
        """Return how far ``value`` exceeds the dead zone, 1 at full deflection; 0 if it is not finite."""
        beyond = (abs(value) - self._dead_zone) / (1 - self._dead_zone) if math.isfinite(value) else 0.0
        return float(np.copysign(min(beyond, 1.0), value)) if beyond > 0 else 0.0

    def help(self) -> list[str]:
        """Return the functions of axes and buttons, for display."""
        texts = [f"{axis.axis}: {name}" for name, axis in self._axes.items()]
        return ["   ".join(texts), "   ".join(f"{button}: {name}" for name, button in self._buttons.items())]


class Reader(Protocol):
    """Reader of a device with axes and buttons."""

    @property
    def absence(self) -> str:
        """Text for the person while the device is missing."""
        ...

    def poll(self) -> Polled:
        """Return the state of the device. Never blocks.

        A device that was unplugged is opened again once it is back.
        """
        ...

    def close(self) -> None: ...


class AxisTeleop:
    """Teleoperation by a device with axes and buttons.

    If the device is unplugged, motion stops at once, and the person loses control after the latch time.
    """

    in_base_frame = True

    def __init__(self, reader: Reader, motion: AxisMotion) -> None:
        self._reader, self._motion = reader, motion

    def read(self) -> Intervention:
        """Return the person's current action. Never blocks."""
        polled = self._reader.poll()
        return self._motion.intervention(polled, self._reader.absence if polled.axes is None else "")

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._motion.reset(closed)

    def help(self) -> list[str]:
        """Return the functions of axes and buttons, for display."""
        return self._motion.help()

    def close(self) -> None:
        """Release the device. May be called twice."""
        self._reader.close()
