"""Checks of a robot before its first training, one after another: connection, sources, resets and motion."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import DriverError, EnvBackend, Observation, SafetyStop, Step, WrappedBackend, counted, shortest
from .arm_checks import ArmChecks
from .checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check
from .dialog import Dialog
from .jogging import Jogger

IMAGES = "images/"
POLL_NS = 1_000_000
COUNTED = 500.0
"""Highest rate at which every message is counted [Hz]."""


class Source(Protocol):
    """State of a source, as in ``drivers/source_state.py``, which this room does not import."""

    origin: str
    measured_ns: int | None
    max_age: float | None


class Driver(Protocol):
    """The parts of a robot's driver that are checked.

    Attributes:
        rate: schedule of control periods, with the numbers of ``periods`` and of ``overruns``.
    """

    rate: Any

    def connect(self) -> None: ...

    def sources(self) -> Mapping[str, Source]: ...


def innermost(backend: EnvBackend) -> Any:
    """Return the driver within ``backend``."""
    while isinstance(backend, WrappedBackend):
        backend = backend.inner
    return backend


def newest_pictures(observation: Observation) -> dict[str, NDArray[np.uint8]]:
    """Return the newest picture (height, width, 3) of each camera in an observation, by the name of the camera."""
    keys = [key for key in observation if key.startswith(IMAGES)]
    return {key.removeprefix(IMAGES): observation[key][..., -3:] for key in keys}  # of stacked frames


class _DisplayedBackend(WrappedBackend):
    """A backend whose pictures a dialog displays."""

    def __init__(self, backend: EnvBackend, dialog: Dialog) -> None:
        super().__init__(backend)
        self._dialog = dialog

    def reset(self, seed: int | None = None) -> Step:
        return self._displayed(self.inner.reset(seed))

    def step(self, action: NDArray[np.float32]) -> Step:
        return self._displayed(self.inner.step(action))

    def _displayed(self, step: Step) -> Step:
        self._dialog.show(newest_pictures(step.observation))
        return step


class BringUp:
    """Checks of a robot, one after another. If the robot is stopped, a check fails and the remaining ones are skipped.

    Args:
        backend: robot with safety filters around it, whose episodes have no time limit.
        settings: options.
        dialog: displays pictures and, before the robot moves, announcements.
        speed: speed of the robot's time, which is not 1 for simulated robots that run slower or faster.

    Attributes:
        pictures: newest picture of each camera (height, width, 3) in RGB, after the resets.
    """

    def __init__(self, backend: EnvBackend, settings: BringUpConfig, dialog: Dialog, speed: float = 1.0) -> None:
        self._settings, self._announce, self._speed = settings, dialog.announce, speed
        self._backend = backend = _DisplayedBackend(backend, dialog)
        self.pictures: dict[str, NDArray[np.uint8]] = {}
        self._driver: Driver = innermost(backend)
        self._clock = backend.clock
        robot = backend.robot
        self._jogger = None if robot is None else Jogger(backend, robot, settings)
        self._arm = None if self._jogger is None else ArmChecks(self._jogger, settings, dialog.announce)

    def checks(self) -> Iterator[Check]:
        """Yield the result of each check."""
        try:
            self._driver.connect()
        except DriverError as error:
            yield Check("connection", FAIL, str(error))
            yield Check("motion", SKIP, "the robot is not connected")
            return
        parts: dict[str, Callable[[], Iterator[Check]]] = {
            "sources": self._check_sources,
            "reset": self._check_resets,
        }
        if self._arm is not None:
            parts |= {"rest": self._arm.rest, "axes": self._arm.axes, "exercise": self._arm.exercise}
        for name, check in parts.items():
            failed = []
            try:
                for result in check():
                    failed += [result.name] if result.outcome == FAIL else []
                    yield result
            except (SafetyStop, DriverError) as error:
                failed.append(name)
                yield Check(name, FAIL, f"the robot was stopped: {error}")
            if failed:
                self._backend.stop("a check failed")
                following = list(parts)[list(parts).index(name) + 1 :]
                yield from [Check(", ".join(following), SKIP, f"failed: {', '.join(failed)}")] if following else []
                return
        self._backend.stop("all checks were made")
        yield self._check_periods()

    def _check_sources(self) -> Iterator[Check]:
        """Listen to all sources for some seconds: rates and ages."""
        begin_ns = self._clock.now_ns()
        end_ns = begin_ns + round(1e9 * self._settings.listen)
        counts: Counter[str] = Counter()
        newest: dict[str, int] = {}
        oldest: Counter[str] = Counter()
        states = self._driver.sources()
        while (now_ns := self._clock.now_ns()) < end_ns:
            states = self._driver.sources()
            for name, state in states.items():
                if state.measured_ns is None:
                    continue
                counts[name] += newest.get(name, state.measured_ns) != state.measured_ns
                newest[name] = state.measured_ns
                oldest[name] = max(oldest[name], now_ns - state.measured_ns)
            self._clock.sleep_until_ns(now_ns + POLL_NS)
        seconds = 1e-9 * (self._clock.now_ns() - begin_ns)
        for name, state in states.items():
            yield self._judged(f"source {name}", state, counts[name] / seconds, 1e-9 * oldest[name])

    def _judged(self, name: str, state: Source, rate: float, age: float) -> Check:
        """Return the check of a source with its measured rate [Hz] and largest age [s]."""
        text, figures = f"{state.origin}: {rate:.1f} Hz", {"rate": rate, "age": age}
        if state.measured_ns is None:
            return Check(name, FAIL, f"{state.origin}: no message", figures)
        if state.max_age is None:
            return Check(name, PASS, f"{text}, valid until the next message", figures)
        text += f", at most {1000 * age:.0f} ms old ({1000 * state.max_age:.0f} ms are allowed)"
        if age > state.max_age:
            return Check(name, FAIL, text, figures)
        control_rate = self._backend.spec.control_rate * self._speed
        if rate < min(0.9 * control_rate, COUNTED):
            return Check(name, WARN, f"{text}; slower than the control rate of {control_rate:g} Hz", figures)
        return Check(name, PASS, text, figures)

    def _check_resets(self) -> Iterator[Check]:
        """Reset several times: duration, pictures, and where the arm begins."""
        times, postures, observation = [], [], {}
        self._announce(f"The robot resets {counted(self._settings.resets, 'time')}")
        for number in range(self._settings.resets):
            begin_ns = self._clock.now_ns()
            if self._jogger is None:
                observation = self._backend.reset(self._settings.seed + number).observation
            else:
                observation = self._jogger.begin().observation
                postures.append(self._jogger.state().joints)
            times.append(1e-9 * (self._clock.now_ns() - begin_ns))
        yield from self._check_pictures(observation)
        text, figures = f"{counted(len(times), 'reset')}, at most {max(times):.1f} s", {"seconds": max(times)}
        if self._jogger is None:
            yield Check("reset", PASS, text, figures)
            return
        robot = self._jogger.robot
        from_home = shortest(np.array(postures) - np.array(robot.home), robot.endless)
        away, spread = float(np.abs(from_home).max()), float(np.ptp(from_home, axis=0).max())
        figures |= {"from_home": away, "spread": spread}
        text += f"; at most {away:.3f} rad from home, {spread:.3f} rad apart"
        if away < 0.1:
            yield Check("reset", PASS, text, figures)
        else:
            yield Check("reset", WARN, f"{text}. Does the robot's own reset lead to task.arm.home?", figures)

    def _check_pictures(self, observation: Observation) -> Iterator[Check]:
        self.pictures = newest_pictures(observation)
        for name, picture in self.pictures.items():
            yield self._check_picture(name, picture)

    def _check_picture(self, name: str, picture: NDArray[np.uint8]) -> Check:
        height, width, _ = picture.shape
        brightness = float(picture.mean())
        text = f"{width} x {height} pixels, mean brightness {brightness:.0f} of 255"
        figures = {"brightness": brightness}
        if 15 < brightness < 240:
            return Check(f"picture {name}", PASS, text, figures)
        return Check(f"picture {name}", WARN, f"{text}: too dark or too bright", figures)

    def _check_periods(self) -> Check:
        rate = self._driver.rate
        late = rate.overruns / max(rate.periods, 1)
        text = f"{rate.overruns} of {rate.periods:,} began too late"
        return Check("control periods", PASS if late < 0.01 else WARN, text, {"late": late})
