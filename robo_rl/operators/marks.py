"""Backend whose episodes a person judges, begins and may take over, with the buttons of a panel."""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core import EMERGENCY_STOP, EnvSpec, Intervention, RenderingError, SafetyStop, Step, WrappedBackend
from .panel import Panel

REPEATING = ("discard", "pause")
"""Buttons that end an episode without a result."""


class EpisodeDiscarded(Exception):  # noqa: N818 - an outcome, not a mistake
    """Raised when the person discards the episode."""


class SessionEnded(Exception):  # noqa: N818 - an outcome, not a mistake
    """Raised when the person ends the session; the open episode is discarded."""


@dataclass
class EpisodeMarks:
    """Actions of a person in an episode.

    Attributes:
        pressed: whether the person ended the episode with Success or Failure.
        person: judgement of the person; None if the person was not asked.
        task: judgement of the task; None if it has none.
        interventions: number of times that the person took over.
        steps: number of control steps.
    """

    pressed: bool = False
    person: bool | None = None
    task: bool | None = None
    interventions: int = 0
    steps: int = 0


class StartView(WrappedBackend):
    """Backend whose picture is mixed with one of an earlier start, so that a person can restore that start.

    Attributes:
        start: picture (height, width, 3) of the earlier start; None: nothing is mixed.
    """

    start: NDArray[np.uint8] | None = None

    def reset(self, seed: int | None = None) -> Step:
        return self.inner.reset(seed)

    def step(self, action: NDArray[np.float32]) -> Step:
        return self.inner.step(action)

    def render(self) -> NDArray[np.uint8]:
        picture = self.inner.render()
        if self.start is None or self.start.shape != picture.shape:
            return picture
        return ((picture.astype(np.uint16) + self.start) // 2).astype(np.uint8)


class MarkedBackend(WrappedBackend):
    """Backend whose episodes are watched by a person.

    If the person judges an episode, Success or Failure ends it; otherwise the person is asked at its end. Discard and
    Pause discard it. A person in control replaces the actions of the policy.

    Args:
        view: the backend, which ``panel`` displays.
        panel: panel of the person; None: no person watches.
        by_person: whether the person's judgement counts instead of the task's.
        confirms_start: whether each episode waits until the person has restored the start state.

    Attributes:
        marks: actions of the person in the current episode.
    """

    def __init__(self, view: StartView, panel: Panel | None, by_person: bool, confirms_start: bool) -> None:
        super().__init__(view)
        self._view, self._panel = view, panel
        self._by_person, self._confirms_start = by_person, confirms_start
        self._picture: NDArray[np.uint8] | None = None
        self._state = ""
        self._repeats_start = self._asks = self._in_control = False
        self.marks = EpisodeMarks()

    @property
    def spec(self) -> EnvSpec:
        return replace(self.inner.spec, reports_success=True) if self._by_person else self.inner.spec

    def announce(self, state: str, repeats_start: bool, asks: bool) -> None:
        """Prepare the next episode.

        Args:
            state: displayed during the episode.
            repeats_start: whether the episode is to begin as the last one did.
            asks: whether the person is asked for a judgement that is only compared with that of the task.
        """
        self._state, self._repeats_start, self._asks = state, repeats_start, asks

    def reset(self, seed: int | None = None) -> Step:
        self.marks, self._in_control = EpisodeMarks(), False
        step = self.inner.reset(seed)
        if self._panel is not None:
            self._panel.begin()
            if self._confirms_start:
                self._wait_for_start(self._panel)
                # again, because the observation is old and the watchdog may have stopped the robot
                step = self.inner.reset(seed)
            self._read(self._panel.look())
            self._panel.forget_buttons()  # buttons that were pressed before the first step do not concern this episode
        self._observation = step.observation
        return step

    def step(self, action: NDArray[np.float32]) -> Step:
        if self._panel is None:
            step = self.inner.step(action)
            self._mark(step)
            return step
        reading = self._panel.turn(self._state, facts={}, observation=self._observation)
        buttons = self._read(reading)
        self.marks.interventions += reading.in_control and not self._in_control
        self._in_control = reading.in_control
        step = self.inner.step(self._panel.action(self._observation) if reading.in_control else action)
        self._observation = step.observation
        self._mark(step)
        self._panel.forget_buttons()
        if self._by_person:
            return self._judged(step, buttons)
        if step.ended and self._asks:
            self.marks.person = self._ask()
        return step

    def _mark(self, step: Step) -> None:
        self.marks.task = step.success
        self.marks.steps += 1

    def _judged(self, step: Step, buttons: frozenset[str]) -> Step:
        """Return ``step`` with the judgement of the person, which ends the episode."""
        if (pressed := buttons & {"success", "failure"}) and not step.ended:
            self.marks.pressed = True
            self.marks.person = "failure" not in pressed
            self.inner.stop("marked by a person")
            return replace(
                step, terminated=self.marks.person, truncated=not self.marks.person, success=self.marks.person
            )
        if step.ended:
            self.marks.person = self._ask()
        return replace(step, success=self.marks.person)

    def _read(self, reading: Intervention) -> frozenset[str]:
        """Return the buttons that are pressed.

        Raises:
            SafetyStop: if the emergency stop is pressed.
            SessionEnded, EpisodeDiscarded: if their buttons are pressed.
        """
        assert self._panel is not None
        if EMERGENCY_STOP in reading.buttons:
            self.inner.stop(EMERGENCY_STOP)
            raise SafetyStop(EMERGENCY_STOP, "a person pressed it")
        if "stop" in reading.buttons:
            self.inner.stop("the session ends")
            raise SessionEnded
        if reading.buttons & set(REPEATING):
            self.inner.stop("discarded")
            self._panel.paused = False  # because the episode begins again
            self._panel.forget_buttons()
            raise EpisodeDiscarded
        return reading.buttons

    def _ask(self) -> bool:
        """Return the person's judgement of the episode that has ended."""
        assert self._panel is not None
        while True:
            reading = self._panel.turn(f"{self._state}: solved? Press Success or Failure", facts={}, waits=True)
            buttons = self._read(reading)
            self._panel.forget_buttons()
            if buttons & {"success", "failure"}:
                return "failure" not in buttons

    def _wait_for_start(self, panel: Panel) -> None:
        """Wait until the person has prepared the start state; store or display its picture."""
        self._view.start = self._picture if self._repeats_start else None
        again = "as in the mixed picture" if self._view.start is not None else "as for the last episode"
        hint = again if self._repeats_start else "as you like"
        try:
            panel.paused = True
            while panel.paused:
                reading = panel.turn(f"{self._state}: place everything {hint}, then press Pause", facts={}, waits=True)
                self._read(Intervention(reading.action, reading.in_control, reading.buttons - set(REPEATING)))
                panel.forget_buttons()
        finally:
            self._view.start, panel.paused = None, False
        if not self._repeats_start:
            with suppress(RenderingError):
                self._picture = None
                self._picture = self._view.render()
