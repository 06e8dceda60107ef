"""What people do to a training whose actors are processes of their own, and see of it."""

import queue
import threading
from collections.abc import Mapping

from ..learner import Learner
from ..telemetry import EPISODE_COMMANDS, Command, LiveRobot, LiveRun, LiveStatus
from ..transport import LearnerServer
from .operators import Operators

ATTEND_SECONDS = 0.1


class AsyncOperators(Operators):
    """People at pages and at the wire of a run. The person who may take over is with an actor.

    Args:
        live: what passes between the run and pages.
        learner: of the run.
    """

    def __init__(self, live: LiveRun, learner: Learner) -> None:
        super().__init__(live)
        self._learner = learner
        self._state, self._refused = "", dict[str, str]()
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def attend(self, server: LearnerServer) -> None:
        """Begin to serve those who watch, in a thread: robots are to be seen and stopped during evaluations too."""
        self._thread = threading.Thread(target=self._attend, args=(server,), name="attend", daemon=True)
        self._thread.start()

    def take_commands(self) -> list[Command]:
        commands = []
        while not self._commands.empty():
            commands.append(self._commands.get())
            self.stop_asked |= commands[-1].name == "stop"
        return commands

    def tell(self, state: str, refused: Mapping[str, str]) -> None:
        self._state, self._refused = state, dict(refused)

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._live.close()

    def _attend(self, server: LearnerServer) -> None:
        shown: dict[str, Mapping[str, bytes]] = {}
        while not self._closing.wait(ATTEND_SECONDS):
            server.watch(self._live.watched)
            for name, actor in server.actors().items():
                if actor.pictures is not shown.get(name):
                    shown[name] = actor.pictures
                    self._live.show(name, actor.pictures)
            for command in [*map(Command, server.take_commands()), *self._live.take_commands()]:
                self._pass_on(server, command)
            self._live.tell(LiveStatus(self._state, server.paused, self._refused, self._robots(server)))

    def _pass_on(self, server: LearnerServer, command: Command) -> None:
        """Pass a command on to actors, and to the learner."""
        if command.name in ("pause", "resume"):
            server.pause(command.name == "pause")
        elif command.name in EPISODE_COMMANDS and not server.order(command.robot, command.name):
            return  # it is not connected, which those who watch see
        self._commands.put(command)

    def _robots(self, server: LearnerServer) -> tuple[LiveRobot, ...]:
        return tuple(
            LiveRobot(
                name,
                actor.is_present,
                {
                    "steps": f"{actor.produced:,}",
                    "in its spool": f"{actor.spooled:,}",
                    "policy": f"{max(self._learner.updates - actor.policy_version, 0):,} updates old"
                    if actor.policy_version >= 0
                    else "none",
                    "held": f"{actor.held_seconds:.0f} s",
                    **({"doing": actor.practice_state} if actor.practice_state else {}),
                },
                actor.picture_problem,
            )
            for name, actor in sorted(server.actors().items())
        )
