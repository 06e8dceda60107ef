"""Panel of a person beside a robot, which displays the robot and is read once per control period."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..app import build, emergency_stop, find_stop_button
from ..core import (
    Clock,
    ConfigError,
    EnvBackend,
    EnvSpec,
    Intervention,
    ManualClock,
    MonotonicClock,
    Observation,
    RenderingError,
    StopButton,
    Teleop,
    find_relative,
    importing_extra,
)
from .camera_view import PersonsCameras, find_headings
from .page_address import link_text, page_settings
from .rearming import find_stops_of
from .stop_button import StopButton as PageButton

AXES = ("x", "y", "z", "roll", "pitch", "yaw")


class TeleopDevice(Teleop, Protocol):
    """Device in a person's hands; it may also be a :class:`Screen`."""

    @property
    def in_base_frame(self) -> bool:
        """Whether actions are given in the base frame, instead of the frame of the robot's actions."""
        ...

    def reset(self, closed: bool = False) -> None:
        """Begin an episode, or continue after another actor, with a gripper that is open or ``closed``."""
        ...


@runtime_checkable
class Screen(Protocol):
    """Display for a person."""

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Display a picture (height, width, 3), or none, and lines of text."""
        ...


@runtime_checkable
class CameraScreen(Protocol):
    """Display of the pictures of several cameras."""

    def show_cameras(self, pictures: Mapping[str, NDArray[np.uint8]], lines: list[str]) -> None:
        """Display pictures (height, width, channels) by camera, the main one first, and lines of text."""
        ...


class Steering(Protocol):
    """Remote buttons, such as services of ROS 2, and a publisher of the robot's state."""

    def take_buttons(self) -> frozenset[str]:
        """Return the buttons that were pressed since the last call."""
        ...

    def report(self, state: str, paused: bool, alarm: bool, facts: Mapping[str, str]) -> None:
        """Publish the activity of the robot; ``alarm`` means that the robot was stopped."""
        ...

    def offer(self, name: str, value: bool | int | float | str, change: Callable[[Any], None] | None = None) -> None:
        """Offer a setting for reading and, with ``change``, writing; ``change`` rejects a value with ConfigError."""
        ...

    def close(self) -> None: ...


class ActionFrame:
    """Rotates a person's actions from the base frame into the frame of the end effector.

    Args:
        spec: spec that names the elements of actions and of the observation.

    Raises:
        ConfigError: if it does not name them, or the orientation of the end effector is not observed.
    """

    def __init__(self, spec: EnvSpec) -> None:
        observed = spec.observation["state"].names if "state" in spec.observation else ()
        columns = [f"end_effector_r{row}{column}" for column in (1, 2) for row in (1, 2, 3)]
        if not set(AXES) & set(spec.action.names) or not set(columns) <= set(observed):
            raise ConfigError(
                f"a person drives in the base frame, but the actions of task {spec.task!r} are in the end effector's: "
                f"this needs names of the action's elements and, in the observation 'state', {', '.join(columns)}; "
                "observe them, or choose task.controller.action_frame=base"
            )
        self._columns = [observed.index(name) for name in columns]
        moved = [(AXES.index(name), place) for place, name in enumerate(spec.action.names) if name in AXES]
        self._axes, self._places = ([*part] for part in zip(*moved, strict=True))

    def __call__(self, observation: Observation, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return ``action`` (A,), given in the base frame, in the observed frame of the end effector.

        A motion that would exceed the largest action is scaled without a change of direction; rotation about an axis
        that actions do not move is dropped.
        """
        x, y = observation["state"][self._columns].astype(np.float64).reshape(2, 3)
        rotation = np.stack([x, y, np.cross(x, y)], axis=1)
        base_motion, turned = np.zeros(6), np.zeros(6)
        base_motion[self._axes] = action[self._places]
        turned[self._axes] = (base_motion.reshape(2, 3) @ rotation).ravel()[self._axes]
        for part in (turned[:3], turned[3:]):
            part /= max(1.0, float(np.abs(part).max()))
        result = action.copy()
        result[self._places] = turned[self._axes]
        return result


class Panel:
    """Device and display of a person, read once per control period.

    Args:
        backend: displayed, and stopped if the emergency stop is pressed.
        device: device in the person's hands, or None.
        steering: remote buttons, or None.
        press: the emergency stop of all robots, which returns a problem with it, or an empty string; None if there is
            none.
        clock: monotonic time.
        button: the stops that hold the robot still, which are displayed while it waits; None if it has none.

    Attributes:
        input: the person's input in the last control period.
        paused: whether the person has paused; a second press of the button ends the pause.

    Raises:
        ConfigError: if the device's actions cannot be converted to the frame of the robot's.
    """

    def __init__(
        self,
        backend: EnvBackend,
        device: TeleopDevice | None,
        steering: Steering | None = None,
        press: Callable[[], str] | None = None,
        clock: Clock | None = None,
        button: StopButton | None = None,
    ) -> None:
        self.backend, self.device = backend, device
        self._button = button
        turns = backend.spec.action_frame == "end_effector" and device is not None and device.in_base_frame
        self._relative = find_relative(backend)
        measured = backend.spec if self._relative is None else self._relative.inner.spec
        self._frame = ActionFrame(measured) if turns else None
        self._screen: Screen | None = device if isinstance(device, Screen) else None
        self._steering, self._press = steering, press
        self._clock = clock or MonotonicClock()
        self._simulated = isinstance(backend.clock, ManualClock)  # simulated time passes only in steps
        self._cameras = PersonsCameras(backend.spec, self._simulated)
        self._period_ns = round(1e9 / backend.spec.control_rate)
        self._deadline_ns = 0
        self._render_problem = self._stop_problem = ""
        self._message = ""
        self.paused = False
        self.input = Intervention(np.zeros(backend.spec.action.shape, np.float32), in_control=False)

    @property
    def latches(self) -> bool:
        """Whether an emergency stop lasts until a person re-arms the robot; false if the last one was not recorded."""
        return self._press is not None and not self._stop_problem

    @property
    def held(self) -> bool:
        """Whether an emergency stop or a missing guard holds the robot still."""
        return self._button is not None and self._button.reason(waits=True) is not None

    def begin(self) -> None:
        """Start the schedule of control periods."""
        self._deadline_ns = self._clock.now_ns()

    def turn(
        self,
        state: str,
        *lines: str,
        facts: Mapping[str, str],
        alarm: bool = False,
        waits: bool = False,
        observation: Observation | None = None,
    ) -> Intervention:
        """Display the robot and ``state``, wait for the end of the control period, and return the person's input.

        There is no wait between two steps of a robot, because the robot keeps its own time, and a second clock would
        only delay commands. If the device has no new input, the last input stays in effect; buttons count once.

        A stop that is pressed while the robot waits, for example during a pause, is displayed and reported, too.

        Args:
            state: activity of the robot.
            lines: displayed below the state.
            facts: published by ``steering``.
            alarm: whether the robot was stopped.
            waits: whether no step follows.
            observation: the newest one, whose pictures are displayed, too, where the screen has room for them.
        """
        stopped = self._button.reason(waits=True) if waits and not alarm and self._button is not None else None
        if stopped is not None:
            state, alarm = f"stopped: {stopped[1]} ({state})", True
        self._show([state, *lines], observation)
        if self._steering is not None:
            self._steering.report(state, self.paused, alarm, facts)
        if waits or self._simulated:
            self._deadline_ns = max(self._deadline_ns + self._period_ns, self._clock.now_ns())
            self._clock.sleep_until_ns(self._deadline_ns)
        return self.look()

    def look(self) -> Intervention:
        """Return the person's current input, as :meth:`turn` does, without waiting."""
        intervention = None if self.device is None else self.device.read()
        intervention = intervention or Intervention(self.input.action, self.input.in_control)
        buttons = intervention.buttons | (frozenset() if self._steering is None else self._steering.take_buttons())
        self.input = Intervention(intervention.action, intervention.in_control, buttons, intervention.message)
        self.paused ^= "pause" in buttons
        if intervention.message and intervention.message != self._message:
            print(intervention.message, flush=True)
        self._message = intervention.message
        if "emergency_stop" in buttons and self._press is not None:
            self._stop_problem = self._press()
        return self.input

    def action(self, observation: Observation) -> NDArray[np.float32]:
        """Return the person's action (A,), in the frame of the robot's actions at ``observation``."""
        if self._frame is None:
            return self.input.action
        return self._frame(observation if self._relative is None else self._relative.measured, self.input.action)

    def forget_buttons(self) -> None:
        """Discard the buttons that were pressed in the last period."""
        self.input = Intervention(self.input.action, self.input.in_control)

    def close(self) -> None:
        """Release the device."""
        try:
            if self.device is not None:
                self.device.close()
        finally:
            if self._steering is not None:
                self._steering.close()

    def _show(self, lines: list[str], observation: Observation | None) -> None:
        if self._screen is None:
            return
        picture = None
        # A simulator that cannot render never will, and takes long to find out. A robot's picture may still arrive.
        if not (self._simulated and self._render_problem):
            try:
                picture, self._render_problem = self.backend.render(), ""
            except RenderingError as error:
                self._render_problem = str(error)
        problems = filter(None, [self._stop_problem, self._message, self._render_problem])
        lines = [*lines, *problems]
        if isinstance(self._screen, CameraScreen):
            self._screen.show_cameras(self._cameras.pictures(picture, observation), lines)
        else:
            self._screen.show(picture, lines)


def open_panel(config: DictConfig, backend: EnvBackend, device: str | None, whose: str) -> Panel:
    """Open the devices that ``config.teleop`` and ``config.steering`` name.

    Args:
        config: configuration with the sections ``teleop``, ``steering``, ``web`` and ``safety``.
        backend: backend that the person controls.
        device: device of the person, or None.
        whose: name of the panel, which is part of the reason of its emergency stops.

    Raises:
        ConfigError: if the device cannot control the robot, or a package is missing.
        DriverError: if the device is not connected.
    """
    press = emergency_stop(config, f"a person, by the {whose}")
    held: TeleopDevice | None = None
    steering: Steering | None = None
    with ExitStack() as opened:
        if device == "browser":
            held = open_page(config, backend.spec, press, find_headings(config, backend))
        elif device is not None:
            held = build(config.teleop, device=device, spec=backend.spec, robot=backend.robot)
        if held is not None:
            opened.callback(held.close)
        if config.get("steering") is not None:
            steering = build(config.steering, emergency_stop=press)
            opened.callback(steering.close)
            offer_settings(steering, config, "task", "run", "actor", "record", "teleop")
        panel = Panel(backend, held, steering, press, button=find_stop_button(config))
        opened.pop_all()
    return panel


def offer_settings(steering: Steering, config: DictConfig, *sections: str) -> None:
    """Offer the values on the first level of sections of the configuration for reading."""
    for name in sections:
        part = config.get(name)
        # a section may be plain text, as an actor's run
        for key, value in part.items() if isinstance(part, DictConfig) else ():
            if isinstance(value, bool | int | float | str) and not str(key).startswith("_"):
                steering.offer(f"{name}." + str(key), value)


def open_page(
    config: DictConfig,
    spec: EnvSpec,
    press: Callable[[], str] | None = None,
    headings: Mapping[str, float] | None = None,
) -> TeleopDevice:
    """Serve a web page for driving, and print its address.

    Args:
        config: configuration with the sections ``teleop`` and ``web``.
        spec: spec of the robot.
        press: the emergency stop of all robots, or None.
        headings: what is upwards in the pictures of cameras; see :func:`.camera_view.heading`.

    Raises:
        ConfigError: if a package is missing, the address is taken, or the page cannot drive the robot.
    """
    with importing_extra("web", "pages need the packages websockets and segno"):
        from ..web.person import PersonPage
    settings = page_settings(config)
    about = {"task": spec.task, "elements": spec.action.names, "headings": dict(headings or {})}
    latches = PageButton(partial(find_stops_of, config))
    page = PersonPage(settings, about, emergency_stop=press, latches=latches)
    try:
        device: TeleopDevice = build(config.teleop, device="browser", spec=spec, page=page)
    except BaseException:
        page.close()
        raise
    print(f"Drive at {link_text(page.link, settings)}\nAnyone with this address can drive.", flush=True)
    return device
