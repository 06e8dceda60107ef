"""View and commands of the operators who supervise a training run."""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

from ..actor import ActionChoice, Actor, SceneLimits, SceneView, View
from ..core import EnvBackend, Interruption, Observation, SafetyStop, StopButton, Transition
from ..operators.takeover import Takeover
from ..telemetry import EPISODE_COMMANDS, Command, LiveRobot, LiveRun, LiveStatus
from .evaluations import PERSON_POLL_SECONDS


class Operators(ABC):
    """Operators who watch a run and may command it.

    Args:
        live: connection between the run and its operators.

    Attributes:
        stop_requested: whether an operator requested that the run end after a final evaluation.
    """

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self.stop_requested = False

    @abstractmethod
    def take_commands(self) -> list[Command]:
        """Return the commands since the last call. Commands about episodes and pauses have already been executed."""

    @abstractmethod
    def report(self, state: str, refused: Mapping[str, str]) -> None:
        """Report the activity of the run, in a word or two, and the reasons why some commands are not accepted now."""

    @abstractmethod
    def close(self) -> None:
        """Stop reporting, and release devices."""


class LocalOperators(Operators):
    """Operators of a run in one process: people at web pages, and one person who may intervene.

    Args:
        live: connection between the run and the web pages.
        interruption: is set when the person at the device ends the run.
        backend: robot or simulator that is displayed.
        actor: operators may end its episodes.
        takeover: lets a person act instead of the policy; None: no person does.
        button: the stops that hold the robot still; None if it has none.
        limits: limits of the safety filters, for display; None: there are none.
    """

    def __init__(
        self,
        live: LiveRun,
        interruption: Interruption,
        backend: EnvBackend,
        actor: Actor,
        takeover: Takeover | None,
        button: StopButton | None = None,
        limits: SceneLimits | None = None,
    ) -> None:
        super().__init__(live)
        self._button = button
        self._interruption = interruption
        self._actor, self._takeover = actor, takeover
        self._view, self._scene = View(backend), SceneView(backend, limits)
        self._pause_requested = False
        self._order: str | None = None

    @property
    def paused(self) -> bool:
        """Whether no step may be taken at present."""
        return (self._pause_requested and self._actor.is_between_episodes) or (
            self._takeover is not None and self._takeover.paused
        )

    def take_commands(self) -> list[Command]:
        if self._takeover is not None and self._takeover.stops:
            self._interruption.signal = signal.SIGINT
        commands = self._live.take_commands()
        for command in commands:
            if command.name in EPISODE_COMMANDS:
                begun = not self._actor.is_between_episodes and self._actor.episode_length > 0
                self._order = command.name if begun else None  # an earlier order applied to another episode
            elif command.name in ("pause", "resume"):
                self._pause_requested = command.name == "pause"
            self.stop_requested |= command.name == "stop"
        return commands

    def wait(self) -> None:
        """Wait briefly during a pause."""
        if self._takeover is not None:
            self._takeover.wait("paused")
        else:
            time.sleep(PERSON_POLL_SECONDS)

    def begin_episode(self) -> bool:
        """Return whether the new episode may continue, because the person has neither paused nor stopped it."""
        return self._takeover is None or self._takeover.begin_episode()

    def heed(self) -> None:
        """Check the device of the person at the robot while the robot returns to the start on its own.

        Raises:
            SafetyStop: if the person pressed the emergency stop.
        """
        if self._takeover is not None:
            self._takeover.heed()

    def choose(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return the action to execute, given the policy's ``choice``."""
        return choice if self._takeover is None else self._takeover(observation, choice)

    def mark(self, transition: Transition) -> Transition:
        """Return the step that was just taken with the operators' marks; they may make it the last of its episode."""
        if self._takeover is not None:
            transition = self._takeover.mark(transition)
            if transition.terminated or transition.truncated:
                self._actor.abandon_episode()
        if self._order is not None:
            transition = self._actor.end_episode(transition, self._order)
            self._order = None
        return transition

    def show(self, transition: Transition) -> None:
        """Send pictures and scene of the robot after a step to the operators who watch."""
        if self._live.watched:
            self._live.show("local", self._view.take(transition.next_observation))
            self._scene.note(transition.verdict)
            self._live.show_scene("local", *self._scene.take(transition.next_observation))

    def report_stop(self, stop: SafetyStop) -> None:
        """Report to the person at the robot why it was stopped. Orders about the stopped episode are dropped."""
        self._order = None
        if self._takeover is not None:
            self._takeover.wait(f"stopped: {stop}", alarm=True)

    def report(self, state: str, refused: Mapping[str, str]) -> None:
        facts = {"episode": f"{self._actor.episode + 1:,}", "steps of it": f"{self._actor.episode_length:,}"}
        stopped = None if self._button is None else self._button.reason(waits=state == "paused")
        if stopped is not None:
            state, facts["stopped"] = (
                {"paused": "paused and stopped", "training": "stopped"}.get(state, state),
                stopped[1],
            )
        robot = LiveRobot("local", True, facts, self._view.problem)
        self._live.report(LiveStatus(state, self._pause_requested, refused, (robot,)))

    def close(self) -> None:
        self._live.close()
        if self._takeover is not None:
            self._takeover.close()
