"""Actions from pressed keys, for all devices with keys."""

from collections.abc import Collection, Mapping

import numpy as np

from robo_rl.core import Clock, ConfigError, EnvSpec, Intervention

from .config import TeleopConfig

MOTIONS = {
    "w": ("x", 1.0),
    "s": ("x", -1.0),
    "a": ("y", 1.0),
    "d": ("y", -1.0),
    "e": ("z", 1.0),
    "q": ("z", -1.0),
    "c": ("roll", 1.0),
    "z": ("roll", -1.0),
    "up": ("pitch", 1.0),
    "down": ("pitch", -1.0),
    "left": ("yaw", 1.0),
    "right": ("yaw", -1.0),
}
"""Keys by name: the element of the action that they move, and the direction. x points away from the robot's base, y to
its left, z up, whatever the frame of its actions."""

VEHICLE_MOTIONS = {
    "w": ("throttle", 1.0),
    "s": ("throttle", -1.0),
    "a": ("steering", 1.0),
    "d": ("steering", -1.0),
    "up": ("throttle", 1.0),
    "down": ("throttle", -1.0),
    "left": ("steering", 1.0),
    "right": ("steering", -1.0),
}
"""Keys of a vehicle; positive steering is to the left."""

BUTTONS = {
    "enter": "success",
    "f": "failure",
    "backspace": "discard",
    "p": "pause",
    "escape": "stop",
    "x": "emergency_stop",
}

GRIPPER_KEY = "space"
GRIPPER_OPEN, GRIPPER_CLOSED = -1.0, 1.0

HELP = (
    ("w s", "x", "forward, back"),
    ("a d", "y", "left, right"),
    ("e q", "z", "up, down"),
    ("z c", "roll", "roll"),
    ("\u2191 \u2193", "pitch", "pitch"),
    ("\u2190 \u2192", "yaw", "turn"),
    ("space", "gripper", "open, close the gripper"),
    ("w s \u2191 \u2193", "throttle", "forward, back"),
    ("a d \u2190 \u2192", "steering", "left, right"),
)
BUTTON_HELP = (
    "enter: success, f: failure, end the episode   backspace: discard it   p: pause   esc: stop   x: emergency stop"
)


class KeyMotion:
    """Conversion of pressed and released keys to an :class:`~robo_rl.core.Intervention`.

    Args:
        spec: spec of the robot. The elements of its action must be named x, y, z, roll, pitch, yaw or gripper, or
            steering and throttle. Without names, three elements are x, y, z; four are these and the gripper; seven are
            all of them.
        config: speeds and times.
        clock: monotonic clock.
        moves: whether keys move the robot; otherwise they only act as buttons, and any robot is accepted.

    Raises:
        ConfigError: if an element of the action has another name.
    """

    def __init__(self, spec: EnvSpec, config: TeleopConfig, clock: Clock, moves: bool = True) -> None:
        self._names = action_names(spec) if moves else []
        self._motions = motions_of(self._names)
        self._config = config
        self._clock = clock
        self._pressed_ns: dict[str, int] = {}
        self._held: set[str] = set()
        self._buttons: set[str] = set()
        self._last_ns: int | None = None
        self._closed = False

    def press(self, key: str) -> None:
        """Register that ``key`` was pressed, or repeated by the terminal. Buttons do not take control."""
        if key in BUTTONS:
            self._buttons.add(BUTTONS[key])
            return
        if key == GRIPPER_KEY and "gripper" in self._names:
            self._closed = not self._closed
        elif key in self._motions:
            self._pressed_ns[key] = self._clock.now_ns()
        else:
            return
        self._last_ns = self._clock.now_ns()

    def hold(self, key: str) -> None:
        """Register that ``key`` was pressed and acts until :meth:`release`."""
        self.press(key)
        if key in self._pressed_ns:  # a key without a function in this task must not take control
            self._held.add(key)

    def release(self, key: str) -> None:
        """Register that ``key`` was released."""
        self._held.discard(key)
        self._pressed_ns.pop(key, None)

    def release_all(self) -> None:
        """Release all keys, for example when the window loses the keyboard focus."""
        self._held.clear()
        self._pressed_ns.clear()

    def reset(self, closed: bool = False) -> None:
        """Begin an episode or an intervention, with the gripper open or ``closed``."""
        self._closed = closed

    def intervention(self) -> Intervention:
        """Return the state of the keys; each press of a button is reported once."""
        now = self._clock.now_ns()
        action = np.zeros(len(self._names), np.float32)
        for key, pressed_ns in self._pressed_ns.items():
            name, direction = self._motions[key]
            level = 1.0 if key in self._held else self._level((now - pressed_ns) * 1e-9)
            action[self._names.index(name)] += direction * level * self._config.speed
        if self._held:
            self._last_ns = now
        if "gripper" in self._names:
            action[self._names.index("gripper")] = GRIPPER_CLOSED if self._closed else GRIPPER_OPEN
        latched = self._last_ns is not None and (now - self._last_ns) * 1e-9 <= self._config.latch_seconds
        buttons, self._buttons = frozenset(self._buttons), set()
        return Intervention(np.clip(action, -1, 1), latched, buttons)

    def help(self) -> list[str]:
        """Return the functions of the keys, for display."""
        motions = [f"{keys}: {text}" for keys, name, text in HELP if name in self._names]
        return ["   ".join(motions), BUTTON_HELP] if motions else [BUTTON_HELP]

    def _level(self, age: float) -> float:
        """Return how strongly a key acts ``age`` seconds after it was pressed."""
        beyond = age - self._config.hold_seconds
        if beyond <= 0:
            return 1.0
        decay = self._config.decay_seconds
        return max(0.0, 1.0 - beyond / decay) if decay > 0 else 0.0


def motions_of(names: Collection[str]) -> Mapping[str, tuple[str, float]]:
    """Return the motions of keys, as in :data:`MOTIONS`, for an action whose elements have these names."""
    motions = VEHICLE_MOTIONS if "throttle" in names else MOTIONS
    return {key: motion for key, motion in motions.items() if motion[0] in names}


def action_names(spec: EnvSpec) -> list[str]:
    """Return the names of the action's elements, which move an end effector or a vehicle.

    Raises:
        ConfigError: if they move something else.
    """
    order = ["x", "y", "z", "roll", "pitch", "yaw", "gripper"]
    by_size = {3: order[:3], 4: [*order[:3], "gripper"], 7: order}
    names = list(spec.action.names) or by_size.get(spec.action.shape[0], [])
    if sorted(names) == ["steering", "throttle"]:
        return names
    unknown = [name for name in names if name not in order]
    if unknown or not names:
        elements = f"elements {', '.join(names)}" if names else f"{spec.action.shape[0]} elements without names"
        raise ConfigError(
            f"a person drives an end effector (action elements {', '.join(order)}) or a vehicle (steering, throttle), "
            f"but the action of task {spec.task!r} has {elements}; choose a task or "
            "task.controller.action_space=end_effector_delta that moves one"
        )
    return names
