"""What people do to a training, and see of it."""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

from ..actor import ActionChoice, Actor, View
from ..core import EnvBackend, Interruption, Observation, SafetyStop, Transition
from ..operators.takeover import Takeover
from ..telemetry import EPISODE_COMMANDS, Command, LiveRobot, LiveRun, LiveStatus
from .evaluations import PERSON_POLL_SECONDS


class Operators(ABC):
    """People who watch a run, and may command it.

    Args:
        live: what passes between the run and those who watch it.

    Attributes:
        stop_asked: whether somebody wants the run to be evaluated and to end.
    """

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self.stop_asked = False

    @abstractmethod
    def take_commands(self) -> list[Command]:
        """Return what people asked for since the last call; what concerns episodes and pauses is taken care of."""

    @abstractmethod
    def tell(self, state: str, refused: Mapping[str, str]) -> None:
        """Tell what the run does, in a word or two, and which commands it does not take now, and why."""

    @abstractmethod
    def close(self) -> None:
        """Tell nothing more, and let go of devices."""


class LocalOperators(Operators):
    """Those of a run in one process: people at pages, and one who may take over from the policy.

    Args:
        live: what passes between the run and pages.
        interruption: where the person who may take over ends the run.
        backend: robot or simulator, which they see.
        actor: whose episodes on it they end.
        takeover: the person who may take over; None: there is nobody.
    """

    def __init__(
        self, live: LiveRun, interruption: Interruption, backend: EnvBackend, actor: Actor, takeover: Takeover | None
    ) -> None:
        super().__init__(live)
        self._interruption = interruption
        self._actor, self._takeover = actor, takeover
        self._view = View(backend)
        self._pause_asked = False
        self._order: str | None = None

    @property
    def paused(self) -> bool:
        """Whether no step is to be taken now."""
        return (self._pause_asked and self._actor.is_between_episodes) or (
            self._takeover is not None and self._takeover.paused
        )

    def take_commands(self) -> list[Command]:
        if self._takeover is not None and self._takeover.stops:
            self._interruption.signal = signal.SIGINT
        commands = self._live.take_commands()
        for command in commands:
            if command.name in EPISODE_COMMANDS:
                begun = not self._actor.is_between_episodes and self._actor.episode_length > 0
                self._order = command.name if begun else None  # what was asked before was not about this episode
            elif command.name in ("pause", "resume"):
                self._pause_asked = command.name == "pause"
            self.stop_asked |= command.name == "stop"
        return commands

    def wait(self) -> None:
        """Spend a moment of a pause."""
        if self._takeover is not None:
            self._takeover.wait("paused")
        else:
            time.sleep(PERSON_POLL_SECONDS)

    def begin_episode(self) -> bool:
        """Return whether the episode that was begun may go on: the person neither paused nor stopped."""
        return self._takeover is None or self._takeover.begin_episode()

    def heed(self) -> None:
        """Hear the person at the robot while it is brought back by itself.

        Raises:
            SafetyStop: if they press the emergency stop.
        """
        if self._takeover is not None:
            self._takeover.heed()

    def choose(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return what is to be done, where the policy would do ``choice``."""
        return choice if self._takeover is None else self._takeover(observation, choice)

    def mark(self, transition: Transition) -> Transition:
        """Return the step just taken as people have it: perhaps as the last of its episode."""
        if self._takeover is not None:
            transition = self._takeover.mark(transition)
            if transition.terminated or transition.truncated:
                self._actor.abandon_episode()
        if self._order is not None:
            transition = self._actor.end_episode(transition, self._order)
            self._order = None
        return transition

    def show(self, observation: Observation) -> None:
        """Show the robot to those who watch."""
        if self._live.watched:
            self._live.show("local", self._view.take(observation))

    def tell_stop(self, stop: SafetyStop) -> None:
        """Tell the person at the robot why it was stopped. What was asked about the episode went with it."""
        self._order = None
        if self._takeover is not None:
            self._takeover.wait(f"stopped: {stop}", alarm=True)

    def tell(self, state: str, refused: Mapping[str, str]) -> None:
        facts = {"episode": f"{self._actor.episode + 1:,}", "steps of it": f"{self._actor.episode_length:,}"}
        robot = LiveRobot("local", True, facts, self._view.problem)
        self._live.tell(LiveStatus(state, self._pause_asked, refused, (robot,)))

    def close(self) -> None:
        self._live.close()
        if self._takeover is not None:
            self._takeover.close()
