"""An actor's end and a learner's end of the wire, for tests; the learner may run as a process of its own."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.actor import Spool
from robo_rl.core import EnvSpec, State, Transition
from robo_rl.replay import EpisodeStore, Intake
from robo_rl.transport import LearnerLink, LearnerServer, RecordEncoder, TransportConfig

from .replay_episodes import SPEC, make_episode

RUN = "run-1"
PATIENCE_SECONDS = 120.0


def agree(facts: Mapping[str, Any]) -> list[str]:
    return SPEC.differences(EnvSpec.from_json(facts["spec"]))


def make_server(config: TransportConfig, intake: Intake, run: str = RUN, **options: Any) -> LearnerServer:
    return LearnerServer(config, run, SPEC, intake, agree, **options)


def steps_of(session: int, lengths: list[int], actor: str = "robot") -> list[Transition]:
    """Episodes of one session, numbered as an actor does; the same arguments give the same steps."""
    steps: list[Transition] = []
    for number, length in enumerate(lengths):
        for step in make_episode(1000 * session + number, length):
            changes = {"actor": actor, "session": session, "episode": number, "sequence": len(steps)}
            steps.append(dataclasses.replace(step, **changes))
    return steps


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def stored_steps(replay: Path) -> dict[tuple[str, int], list[Transition]]:
    """Everything that is stored, by actor and session, in the order of the store."""
    found: dict[tuple[str, int], list[Transition]] = {}
    with EpisodeStore.open(replay / "episodes") as store:
        for number, record in enumerate(store.records):
            found.setdefault((record.actor, record.session), []).extend(store.episode(number))
    return found


LARGEST: State = {"weight": np.zeros(400_000)}
"""Policy of the size that an actor in tests takes in at most."""


class ActorRig:
    """A spool and a link, and steps that are put through them. Policies may be as large as ``LARGEST``."""

    def __init__(self, config: TransportConfig, folder: Path, actor: str = "robot", spec: EnvSpec = SPEC) -> None:
        self.spool = Spool(folder)
        self.link = LearnerLink(config, actor, spec, {}, self.spool, run=self.spool.run)
        self.encoder = RecordEncoder(spec)
        self.actor = actor

    def join(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        assert self.link.join(self.spool.newest_session, lambda: time.monotonic() > deadline), "no learner answered"
        self.spool.bind(self.link.run)
        self.spool.begin_session(self.link.session)
        self.link.start()
        self.link.receive(LARGEST)
        return self.link.session

    def put(self, steps: list[Transition]) -> None:
        for step in steps:
            self.spool.append(step.sequence, self.encoder.encode(step))
            self.link.wake()

    def finish(self) -> None:
        assert self.link.finish(PATIENCE_SECONDS), self.link.status

    def close(self) -> None:
        self.link.close()
        self.spool.close()


def serve(address: str, replay: str, port_file: str) -> None:
    """Be a learner until killed: the main of a process."""
    intake = Intake(Path(replay), SPEC)
    server = make_server(TransportConfig(address), intake)
    server.publish(1, {"weight": np.arange(4, dtype=np.float32)})
    Path(f"{port_file}.partial").write_text(json.dumps(server.address))
    Path(f"{port_file}.partial").replace(port_file)
    threading.Event().wait()
