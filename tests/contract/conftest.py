"""A learner's end of the wire, and an actor's, in one process."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from robo_rl.replay import Intake
from robo_rl.transport import TransportConfig

from ..rigs.replay_episodes import SPEC
from ..rigs.transport_rig import ActorRig, make_server

LOCAL = TransportConfig("127.0.0.1:0", timeout_seconds=20.0)


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    made = Intake(tmp_path / "replay", SPEC)
    yield made
    made.close()


@pytest.fixture
def server(intake: Intake):
    made = make_server(LOCAL, intake)
    yield made
    made.close(0)


def config_for(server) -> TransportConfig:
    return dataclasses.replace(LOCAL, address=server.address)


@pytest.fixture
def rig(server, tmp_path: Path) -> Iterator[ActorRig]:
    made = ActorRig(config_for(server), tmp_path / "spool")
    yield made
    made.close()
