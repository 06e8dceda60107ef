"""Operators' view of a run whose actors are separate processes, and their commands to it."""

import contextlib
import queue
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Mapping
from pathlib import Path

from ..core import Repetitions, Verdict, sync_folder, write_durably
from ..learner import Learner
from ..telemetry import EPISODE_COMMANDS, Command, LiveRobot, LiveRun, LiveStatus
from ..transport import ActorView, LearnerServer
from .operators import Operators

ATTEND_SECONDS = 0.05
STANDING_SECONDS = 4.0
"""Time without a step after which an actor is reported [s]."""
REMINDER_SECONDS = 60.0
RATE_SECONDS = 10.0
JOIN_SECONDS = 20.0
"""Time that actors may take to join [s], because they have to start or wait for a robot."""


class AsyncOperators(Operators):
    """Operators who use web pages or the transport of a run. A person who may intervene is at an actor instead.

    Args:
        live: connection between the run and the web pages.
        learner: the run's learner.
        folder: the run folder. It contains the file ``paused`` while an operator has paused the run, because a
            restarted learner process must not let robots continue.
    """

    def __init__(self, live: LiveRun, learner: Learner, folder: Path) -> None:
        super().__init__(live)
        self._learner = learner
        self._pause_file = folder / "paused"
        self._state, self._refused = "", dict[str, str]()
        self._rates: dict[str, _Rate] = {}
        self._changed_steps: Counter[str] = Counter()
        self._stops: dict[str, str] = {}
        self._last_messages: dict[str, str] = {}
        self._sent: dict[str, tuple[Mapping[str, bytes], bytes, bytes]] = {}  # pictures, geometry and frame
        self._standing: dict[str, StandingActor] = {}
        self._absence = Absence(time.monotonic())
        self._failures = Repetitions()
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def was_paused(self) -> bool:
        """Whether the run is paused, possibly since an earlier process of it."""
        return self._pause_file.exists()

    def attend(self, server: LearnerServer, notify: Callable[[str], None]) -> None:
        """Start a thread that serves the web pages, so that robots can be watched and stopped in evaluations too."""
        self._thread = threading.Thread(target=self._attend, args=(server, notify), name="attend", daemon=True)
        self._thread.start()

    def take_commands(self) -> list[Command]:
        commands = []
        while not self._commands.empty():
            commands.append(self._commands.get())
            self.stop_requested |= commands[-1].name == "stop"
        return commands

    def report(self, state: str, refused: Mapping[str, str]) -> None:
        self._state, self._refused = state, dict(refused)

    def note_step(self, actor: str, verdict: Verdict) -> None:
        """Record the verdict of the safety filters on a step of an actor."""
        self._changed_steps[actor] += verdict.changed

    def note_stop(self, actor: str, reason: str, step: int) -> None:
        """Record why an episode of an actor was stopped, at environment step ``step`` of the run."""
        self._stops[actor] = f"{reason} at step {step:,}"

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._live.close()

    def _attend(self, server: LearnerServer, notify: Callable[[str], None]) -> None:
        while not self._closing.wait(ATTEND_SECONDS):
            for part in (self._notify_people, self._take_commands, self._show):
                try:
                    part(server, notify)
                except Exception as error:  # a closed terminal must not keep operators from commanding the run
                    with contextlib.suppress(OSError):
                        if self._failures.count(type(error).__name__):
                            traceback.print_exc()

    def _show(self, server: LearnerServer, notify: Callable[[str], None]) -> None:
        """Report the state of the run, and the pictures and scenes of actors, to the operators who watch."""
        server.watch(self._live.watched)
        for name, actor in server.actors().items():
            pictures, geometry, frame = self._sent.get(name, ({}, b"", b""))
            self._sent[name] = actor.pictures, actor.scene_geometry, actor.scene_frame
            if actor.pictures is not pictures:
                self._live.show(name, actor.pictures)
            new_geometry = b"" if actor.scene_geometry is geometry else actor.scene_geometry
            self._live.show_scene(name, new_geometry, b"" if actor.scene_frame is frame else actor.scene_frame)
        self._live.report(LiveStatus(self._state, server.paused, self._refused, self._robots(server)))

    def _take_commands(self, server: LearnerServer, notify: Callable[[str], None]) -> None:
        for command in [*map(Command, server.take_commands()), *self._live.take_commands()]:
            self._pass_on(server, command, notify)

    def _notify_people(self, server: LearnerServer, notify: Callable[[str], None]) -> None:
        """Pass on messages of actors, and report actors that take no steps."""
        for name, text in server.take_words():
            self._last_messages[name] = text
            notify(f"{name}: {text}")
        now, actors = time.monotonic(), server.actors()
        is_alone = not server.is_over and not any(actor.is_present for actor in actors.values())
        if notice := self._absence.look(is_alone, now):
            notify(notice)
        for name, actor in actors.items():
            notice = self._standing.setdefault(name, StandingActor(now)).look(actor, now)
            if notice:
                words = self._last_messages.get(name, "")
                notify(f"{name} {notice}{words and f'; its last message: {words}'}")

    def _pass_on(self, server: LearnerServer, command: Command, notify: Callable[[str], None]) -> None:
        """Pass a command on to actors, and to the learner."""
        if command.name in ("pause", "resume"):
            server.pause(command.name == "pause")
            try:
                _keep_pause(self._pause_file, server.paused)
            except OSError as error:
                notify(
                    f"{self._pause_file} cannot be changed ({error.strerror}): a restarted learner will not know of it"
                )
        elif command.name in EPISODE_COMMANDS and not server.order(command.robot, command.name):
            return  # the actor is not connected, which the web pages show
        self._commands.put(command)

    def _robots(self, server: LearnerServer) -> tuple[LiveRobot, ...]:
        return tuple(
            LiveRobot(name, actor.is_present, self._facts(name, actor), actor.picture_problem)
            for name, actor in sorted(server.actors().items())
        )

    def _facts(self, name: str, actor: ActorView) -> dict[str, str]:
        rate = self._rates.setdefault(name, _Rate()).of(actor.produced, time.monotonic())
        age = max(self._learner.updates - actor.policy_version, 0)
        facts = {
            "steps": f"{actor.produced:,}",
            "steps/s": f"{rate:.1f}",
            "in its spool": f"{actor.spooled:,}",
            "policy": f"{age:,} updates old" if actor.policy_version >= 0 else "none",
            "held": f"{actor.held_seconds:.0f} s",
            "changed by safety": f"{self._changed_steps[name]:,}",
        }
        if name in self._stops:
            facts["last stop"] = self._stops[name]
        if name in self._last_messages:
            facts["last message"] = self._last_messages[name]
        if actor.practice_state:
            facts["doing"] = actor.practice_state
        return facts


def _keep_pause(file: Path, paused: bool) -> None:
    """Record on disk, by the existence of a file, whether the run is paused."""
    if paused:
        write_durably(file, b"")
    else:
        file.unlink(missing_ok=True)
        sync_folder(file.parent)


class Absence:
    """Reports that no actor is connected: at first after a while, and then every minute.

    Args:
        now: monotonic time [s].
    """

    def __init__(self, now: float) -> None:
        self._since, self._due = now, now + JOIN_SECONDS

    def look(self, is_alone: bool, now: float) -> str:
        """Return the report at ``now`` [s]; empty if there is nothing to report."""
        if not is_alone:
            self._since, self._due = now, now + STANDING_SECONDS
            return ""
        if now < self._due:
            return ""
        self._due = now + REMINDER_SECONDS
        return f"No actor has been connected for {now - self._since:.0f} s: the run waits for one"


class StandingActor:
    """Reports that an actor stands still although nothing holds it: once, and then every minute.

    Args:
        now: monotonic time [s].
    """

    def __init__(self, now: float) -> None:
        self._known = (-1, 0.0)
        self._since = self._due = now

    def look(self, actor: ActorView, now: float) -> str:
        """Return the report on the actor at ``now`` [s]; empty if there is nothing to report."""
        # the second number grows while the learner or a person holds the actor
        progress = actor.produced, actor.held_seconds
        if progress != self._known or actor.left or actor.policy_version < 0:
            self._known = progress
            self._since, self._due = now, now + STANDING_SECONDS
            return ""
        if now < self._due:
            return ""
        self._due = now + REMINDER_SECONDS
        doing = f" ({actor.practice_state})" if actor.practice_state else ""
        silence = "" if actor.silent_seconds < 1 else f" and has been silent for {actor.silent_seconds:.0f} s"
        return f"has taken no step for {now - self._since:.0f} s{doing}{silence}"


class _Rate:
    """Rate at which a count grows, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, count: int, now: float) -> float:
        """Return counts per second, given the value ``count`` at time ``now`` [s]."""
        if self._seen and count < self._seen[-1][1]:  # another session has begun
            self._seen.clear()
        while len(self._seen) > 1 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()
        self._seen.append((now, count))
        began, before = self._seen[0]
        return (count - before) / (now - began) if now > began else 0.0
