"""Transport of a run: its store, its server, and the actors that the learner process starts."""

import dataclasses
import json
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..app import AsyncRuntimeConfig, agent_facts, has_robot, needed_packages
from ..core import EnvSpec, require, write_durably
from ..operators.takeover import check_device, has_person
from ..replay import Intake
from ..transport import SOCKET, ActorView, LearnerServer, TransportConfig, new_socket_folder
from .actor_processes import ActorGroup, ActorProcesses
from .async_operators import AsyncOperators

IDLE_SECONDS = 0.05

StartActors = Callable[[DictConfig, Path, TransportConfig, Callable[[str], None]], ActorGroup]
"""Makes an :class:`ActorGroup` from a configuration, a run folder, transport settings and a function for messages."""


def actor_processes(
    config: DictConfig, folder: Path, transport: TransportConfig, notify: Callable[[str], None]
) -> ActorGroup:
    """Return an object that starts actors as processes on this machine; none is started yet."""
    runtime, allow = config.runtime, needed_packages(config)
    return ActorProcesses(folder, transport, runtime.restarts, runtime.real_time_factor, allow, notify)


def check_actors(config: DictConfig, actors: int) -> None:
    """Check that there is at most one actor if there is only one robot or person.

    Raises:
        ConfigError: if there are more.
    """
    if actors:
        check_device(config, "actors that the learner starts have none")
    for single, exists in (("robot", has_robot(config)), ("person", has_person(config))):
        require(not exists or actors <= 1, "runtime.actors", f"0 or 1 with a {single} (there is only one)", actors)


class Wire:
    """Source of steps: the store, the server that actors join, and the actors that are started locally.

    Args:
        config: configuration of the run.
        folder: folder of the run.
        runtime: section of ``config``.
        start_actors: makes the object that starts actors.

    Attributes:
        actors: actors that are started locally.
        intake: holds the store.
        server: available after :meth:`open`.
    """

    actors: ActorGroup
    intake: Intake
    server: LearnerServer

    def __init__(
        self, config: DictConfig, folder: Path, runtime: AsyncRuntimeConfig, start_actors: StartActors
    ) -> None:
        self._config, self._folder, self._runtime = config, folder, runtime
        self._make_actors = start_actors
        self._notify: Callable[[str], None] = print
        self._undo = ExitStack()
        self._transport = runtime.transport

    def start(self) -> None:
        """Start actors before the server is open, if only actors of this machine may join.

        Actors take seconds to start, during which demonstrations are recorded. They try to connect until the server is
        open.
        """
        if self._transport.address is None:
            socket_folder = new_socket_folder()
            self._undo.callback(shutil.rmtree, socket_folder, ignore_errors=True)
            self._transport = dataclasses.replace(self._transport, address=f"unix:{socket_folder / SOCKET}")
            self._start_actors()

    def open_store(self, spec: EnvSpec) -> None:
        """Open the store of the run, or create it."""
        self.intake = Intake(self._folder / "replay", spec)
        self._undo.callback(self.intake.close)

    def open(self, spec: EnvSpec, operators: AsyncOperators, notify: Callable[[str], None]) -> None:
        """Open the server, and start local actors unless they have been started. Actors wait for a policy.

        Args:
            spec: spec of the environment.
            operators: begins to serve the web pages.
            notify: reports messages to operators.
        """
        self._notify, paused = notify, operators.was_paused
        differences = partial(_differences, spec, agent_facts(self._config.agent))
        identity = run_identity(self._folder)
        self.server = LearnerServer(self._transport, identity, spec, self.intake, differences, paused=paused)
        self._undo.callback(self.server.close)
        notify(f"Actors may join at {self.server.address} (run {self.server.run})")
        if paused:
            notify("The run is still paused: no episode begins until resume is sent")
        operators.attend(self.server, notify)
        if self._runtime.transport.address is not None:
            self._transport = dataclasses.replace(self._transport, address=self.server.address)
            self._start_actors()
        else:
            # runs before the server closes, so that actors can hand over their steps
            self._undo.callback(self.actors.stop)

    def present(self) -> list[str]:
        """Return the actors that are connected and have not ended their session: they may still hold steps."""
        return [name for name, actor in self.server.actors().items() if actor.is_present]

    def practising(self) -> list[tuple[str, ActorView]]:
        """Return the actors whose robots return to the start on their own after episodes."""
        return [(name, actor) for name, actor in sorted(self.server.actors().items()) if actor.practice]

    def spooled(self) -> int:
        """Return how many steps wait in the spools of actors; actors that left have handed over all steps."""
        return sum(actor.spooled for actor in self.server.actors().values() if not actor.left)

    def hold(self, env_steps: int) -> None:
        """Hold the actors while the learner does not learn, unless ``runtime.min_ratio`` is 0."""
        if self._runtime.min_ratio > 0:
            self.server.guide(room=0, stop=False, env_steps=env_steps)

    def end(self, env_steps: int, take: Callable[[], None]) -> None:
        """Notify actors that the run is over after ``env_steps``; call ``take`` to receive their remaining steps."""
        deadline = time.monotonic() + self._runtime.finish_seconds
        self.server.guide(room=0, stop=True, env_steps=env_steps)
        while time.monotonic() < deadline and (self.actors.running() or self.present()):
            take()
            time.sleep(IDLE_SECONDS)
        self.actors.stop()
        if not self.intake.flush(max(deadline - time.monotonic(), 1.0)):
            self._notify(f"Not all steps are stored: {self.intake.blocked()}. The others stay in the actors' spools.")
        take()

    def close(self) -> None:
        """End the actors that were started locally, close the server, and close the store."""
        self._undo.close()

    def _start_actors(self) -> None:
        # Actors may be started before ``open`` has set the function for messages.
        self.actors = self._make_actors(self._config, self._folder, self._transport, lambda text: self._notify(text))
        self._undo.callback(self.actors.stop)
        self.actors.resize(self._runtime.actors)


def run_identity(folder: Path) -> str:
    """Return the unique identity of the run in ``folder``, which stays the same after it is resumed."""
    file = folder / "run_id"
    if not file.exists():
        write_durably(file, uuid.uuid4().hex.encode())
    return file.read_text()


def _differences(spec: EnvSpec, agent: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Return the differences between an actor with ``facts`` and a learner with ``spec`` and ``agent``."""
    # Both sides pass through JSON, so that a tuple equals a list.
    own_spec, local = json.loads(json.dumps([spec.to_json(), agent]))
    lines = EnvSpec.from_json(own_spec).differences(EnvSpec.from_json(facts["spec"]))
    remote = facts["agent"]
    for key in sorted(local.keys() | remote.keys()):
        if local.get(key) != remote.get(key):
            lines.append(f"agent.{key}: expected {local.get(key)}, found {remote.get(key)}")
    return lines
