"""Actions from the deflected axes and pressed buttons of any device."""

import threading
from collections.abc import Collection, Mapping, Set
from typing import NamedTuple, Protocol

import numpy as np

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention, nearest

from .config import MappingConfig
from .keys import GRIPPER_CLOSED, GRIPPER_OPEN, action_names

NO_CONTROL = {"gripper", "deadman"}
"""Functions of buttons that are part of the motion."""


class Polled(NamedTuple):
    """The state of a device.

    Attributes:
        axes: deflections by name, in [-1, 1]; an axis that is not named is at rest. None while the device is not there.
        held: names of buttons that are held.
        tapped: names of buttons that went down since the last look; by now they may be let go, or the device be gone.
        lost: whether some of what the device said was lost: where its axes are is not known before all are at rest.
    """

    axes: Mapping[str, float] | None
    held: Set[str] = frozenset()
    tapped: Set[str] = frozenset()
    lost: bool = False


class Buttons:
    """Buttons of a device that is heard more often than it is looked at: a short press between two looks counts too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Set[str] | None = None
        self._tapped: Set[str] = frozenset()

    def hear(self, held: Set[str]) -> None:
        """Take note of what is held; what is held at first did not go down."""
        with self._lock:
            self._tapped |= frozenset() if self._held is None else held - self._held
            self._held = held

    def look(self, axes: Mapping[str, float] | None, lost: bool = False) -> Polled:
        """Return ``axes`` and what buttons did since the last look; axes are None while the device is not there.

        ``lost``: whether some of what the device said was.
        """
        with self._lock:
            tapped, self._tapped = self._tapped, frozenset()
            if axes is None or self._held is None:
                self._held = None
                return Polled(None, tapped=tapped)
            return Polled(axes, self._held, tapped, lost)


class Latch:
    """Keeps the person in control for a while after the last motion.

    Args:
        seconds: how long.
        clock: monotonic time.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._ns = round(seconds * 1e9)
        self._clock = clock
        self._until_ns: int | None = None

    def __call__(self, moving: bool) -> bool:
        """Return whether the person has control, who now moves or does not."""
        now = self._clock.now_ns()
        if moving:
            self._until_ns = now + self._ns
        return self._until_ns is not None and now <= self._until_ns


class AxisMotion:
    """Turns axes and buttons into an :class:`~robo_rl.core.Intervention`.

    Motion takes control, and a while after it ends gives it back; with a deadman button that button alone does. An axis
    that is deflected at the start, when the device comes back or when some of what it said was lost, does nothing
    before all were at rest once.

    Args:
        spec: of the robot; its action is that of an end effector or a vehicle.
        mapping: what axes and buttons do.
        latch_seconds: see :class:`~.config.TeleopConfig`.
        clock: monotonic time.
        axes: names of axes that the device has, and ``buttons`` of its buttons; None: not known.

    Raises:
        ConfigError: if the robot's action is another, the device lacks an axis or a button, or no axis moves the robot.
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
        used = [each.axis for each in mapping.axes.values() if each.axis]
        for kind, names, known in (("axis", used, axes), ("button", [*mapping.buttons.values()], buttons)):
            for name in filter(None, names):
                if known is not None and name not in known:
                    raise ConfigError(f"the device has no {kind} {name!r}: {nearest(name, known)}")
        self._axes = {name: each for name, each in mapping.axes.items() if name in self._names and each.axis}
        if not self._axes:
            raise ConfigError(f"no axis of the device moves an element of the action ({', '.join(self._names)})")
        self._buttons = {name: button for name, button in mapping.buttons.items() if button}
        self._dead_zone = mapping.dead_zone
        self._latch = Latch(latch_seconds, clock)
        self._pressed: Set[str] | None = None
        self._ready = False
        self._closed = False

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or take over, with the gripper open or ``closed``."""
        self._closed = closed

    def intervention(self, polled: Polled, message: str = "") -> Intervention:
        """Return what the person does.

        When the device is gone nothing moves and nothing is held until it is back and was at rest. Only an emergency
        stop that was tapped before still counts.

        Args:
            polled: what the device says.
            message: for the person.
        """
        axes, pressed, tapped, lost_some = polled
        if axes is None:
            stop = tapped & {self._buttons.get("emergency_stop", "")}
            lost = self.intervention(Polled({}, tapped=stop), message)
            self._pressed, self._ready = None, False  # after it: no axes are axes at rest
            return lost
        deflections = {name: self._beyond(axes.get(each.axis, 0.0)) for name, each in self._axes.items()}
        self._ready = (self._ready and not lost_some) or not any(deflections.values())
        fresh = tapped | (set() if self._pressed is None else pressed - self._pressed)
        self._pressed = pressed
        said = {name for name, button in self._buttons.items() if button in fresh}
        moving = self._ready and any(deflections.values())
        if "gripper" in said and "gripper" in self._names:
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
        return Intervention(action, in_control, frozenset(said - NO_CONTROL), message)

    def _beyond(self, value: float) -> float:
        """Return how far ``value`` is beyond the dead zone, 1 at a full deflection; 0 for what is no number."""
        beyond = (abs(value) - self._dead_zone) / (1 - self._dead_zone)
        return float(np.copysign(min(beyond, 1.0), value)) if beyond > 0 else 0.0

    def help(self) -> list[str]:
        """Return what axes and buttons do, for people."""
        texts = [f"{each.axis}: {name}" for name, each in self._axes.items()]
        return ["   ".join(texts), "   ".join(f"{button}: {name}" for name, button in self._buttons.items())]


class Reader(Protocol):
    """A device that has axes and buttons."""

    @property
    def absence(self) -> str:
        """Text for the person while the device is missing."""
        ...

    def poll(self) -> Polled:
        """Return what the device says.

        Never blocks, and takes the device up again when it is back.
        """
        ...

    def close(self) -> None: ...


class AxisTeleop:
    """Drives a robot by a device that has axes and buttons.

    When the device is unplugged in motion the robot gets no motion at once, and a latch later the person has handed
    back.

    Args:
        reader: the device.
        motion: what it does.
    """

    in_base_frame = True

    def __init__(self, reader: Reader, motion: AxisMotion) -> None:
        self._reader, self._motion = reader, motion

    def read(self) -> Intervention:
        """Return what the person does now. Never blocks."""
        polled = self._reader.poll()
        return self._motion.intervention(polled, self._reader.absence if polled.axes is None else "")

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or take over, with the gripper open or ``closed``."""
        self._motion.reset(closed)

    def help(self) -> list[str]:
        """Return what axes and buttons do, for people."""
        return self._motion.help()

    def close(self) -> None:
        """Let go of the device. May be called twice."""
        self._reader.close()
