"""A person beside a robot: sees it, and says something once a control period."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..app import build, emergency_stop, section
from ..core import Clock, ConfigError, EnvBackend, EnvSpec, Intervention, MonotonicClock, RenderingError, Teleop
from ..web import WebConfig


class TeleopDevice(Teleop, Protocol):
    """What a person holds; it may be a :class:`Screen` too."""

    def reset(self, closed: bool = False) -> None:
        """Begin an episode, or follow whoever acts: commands go on from a gripper that is open, or ``closed``."""
        ...


@runtime_checkable
class Screen(Protocol):
    """What a person sees."""

    def show(self, picture: NDArray[np.uint8] | None, lines: list[str]) -> None:
        """Show a picture (height, width, 3), or none, and lines of text."""
        ...


class Steering(Protocol):
    """Buttons elsewhere, such as services of ROS 2, and where to tell how the robot is."""

    def take_buttons(self) -> frozenset[str]:
        """Return the buttons that were pressed since the last call."""
        ...

    def tell(self, state: str, paused: bool, alarm: bool, facts: Mapping[str, str]) -> None:
        """Tell what the robot is doing; ``alarm``: it was stopped."""
        ...

    def offer(self, name: str, value: bool | int | float | str, change: Callable[[Any], None] | None = None) -> None:
        """Offer a setting to be read and, with ``change``, set; ``change`` refuses a value by a ConfigError."""
        ...

    def close(self) -> None: ...


class Panel:
    """What a person holds and sees, read once a control period.

    Args:
        backend: shown, and stopped where the emergency stop is pressed.
        device: what the person holds; None: nothing.
        steering: buttons elsewhere; None: none.
        press: the emergency stop of all robots; None: there is none.
        clock: monotonic time.
    """

    def __init__(
        self,
        backend: EnvBackend,
        device: TeleopDevice | None,
        steering: Steering | None = None,
        press: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.backend, self.device = backend, device
        self._screen: Screen | None = device if isinstance(device, Screen) else None
        self._steering, self._press = steering, press
        self._clock = clock or MonotonicClock()
        self._period_ns = round(1e9 / backend.spec.control_rate)
        self._deadline_ns = 0
        self._render_problem = ""
        self._message = ""
        self.paused = False
        self.said = Intervention(np.zeros(backend.spec.action.shape, np.float32), in_control=False)

    def begin(self) -> None:
        """Begin a schedule of control periods."""
        self._deadline_ns = self._clock.now_ns()

    def turn(self, state: str, *lines: str, facts: Mapping[str, str], alarm: bool = False) -> Intervention:
        """Show the robot and ``state``, wait for the end of the control period and return what the person says then.

        What the person says with a device that says nothing new stays; buttons count once.
        """
        self._show([state, *lines])
        if self._steering is not None:
            self._steering.tell(state, self.paused, alarm, facts)
        self._deadline_ns = max(self._deadline_ns + self._period_ns, self._clock.now_ns())
        self._clock.sleep_until_ns(self._deadline_ns)
        return self.look()

    def look(self) -> Intervention:
        """Return what the person says now; as :meth:`turn`, without waiting."""
        said = None if self.device is None else self.device.read()
        said = said or Intervention(self.said.action, self.said.in_control)
        buttons = said.buttons | (frozenset() if self._steering is None else self._steering.take_buttons())
        self.said = Intervention(said.action, said.in_control, buttons, said.message)
        self.paused ^= "pause" in buttons
        if said.message and said.message != self._message:
            print(said.message, flush=True)
        self._message = said.message
        if "emergency_stop" in buttons and self._press is not None:
            self._press()
        return self.said

    def forget_buttons(self) -> None:
        """Let buttons that were pressed in the last period count no more."""
        self.said = Intervention(self.said.action, self.said.in_control)

    def close(self) -> None:
        """Let go of the device."""
        try:
            if self.device is not None:
                self.device.close()
        finally:
            if self._steering is not None:
                self._steering.close()

    def _show(self, lines: list[str]) -> None:
        if self._screen is None:
            return
        picture = None
        if not self._render_problem:
            try:
                picture = self.backend.render()
            except RenderingError as error:
                self._render_problem = str(error)
        self._screen.show(picture, [*lines, *filter(None, [self._message, self._render_problem])])


def open_panel(config: DictConfig, backend: EnvBackend, device: str | None, whose: str) -> Panel:
    """Open what ``config.teleop`` and ``config.steering`` name.

    Args:
        config: with the sections ``teleop``, ``steering``, ``web`` and ``safety``.
        backend: that the person drives.
        device: that the person holds; None: none.
        whose: says in the emergency stop who pressed it.

    Raises:
        ConfigError: if the device cannot drive the robot, or a package is missing.
        DriverError: if it is not there.
    """
    press = emergency_stop(config, whose)
    opened: TeleopDevice | None = None
    if device == "browser":
        opened = open_page(config, backend.spec, press)
    elif device is not None:
        opened = build(config.teleop, device=device, spec=backend.spec, robot=backend.robot)
    try:
        steering: Steering | None = (
            None if config.get("steering") is None else build(config.steering, emergency_stop=press)
        )
    except BaseException:
        if opened is not None:
            opened.close()
        raise
    if steering is not None:
        offer_settings(steering, config, "task", "run", "actor", "record", "teleop")
    return Panel(backend, opened, steering, press)


def offer_settings(steering: Steering, config: DictConfig, *sections: str) -> None:
    """Offer what stands in sections of the configuration, on their first level, to be read."""
    for name in sections:
        part = config.get(name)
        for key, value in part.items() if isinstance(part, DictConfig) else ():  # an actor's run is a folder
            if isinstance(value, bool | int | float | str) and not str(key).startswith("_"):
                steering.offer(f"{name}." + str(key), value)


def open_page(config: DictConfig, spec: EnvSpec, press: Callable[[], None] | None = None) -> TeleopDevice:
    """Serve a page by which a person drives, and say where it is.

    Args:
        config: with the sections ``teleop`` and ``web``.
        spec: of what is driven.
        press: the emergency stop of all robots; None: there is none.

    Raises:
        ConfigError: if a package is missing, the address is taken, or the page cannot drive a robot of ``spec``.
    """
    try:
        import segno

        from ..web.person import PersonPage
    except ImportError as error:
        raise ConfigError(f"pages need websockets and segno ({error}): pip install 'robo-rl[web]'") from error
    settings: WebConfig = section(config, "web")
    page = PersonPage(settings, {"task": spec.task, "elements": spec.action.names}, emergency_stop=press)
    try:
        device: TeleopDevice = build(config.teleop, device="browser", spec=spec, page=page)
    except BaseException:
        page.close()
        raise
    print(f"Drive at {page.link}\nWhoever has this address may drive.", flush=True)
    if not settings.is_local:  # for a phone's camera
        segno.make(page.link).terminal(compact=True)
    return device
