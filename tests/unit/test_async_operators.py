"""What people do to a run whose actors are elsewhere, and see of each actor."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.commands.async_operators import AsyncOperators, _Rate
from robo_rl.core import Verdict
from robo_rl.replay import Intake
from robo_rl.telemetry import Command, LiveRun, LiveWatch
from robo_rl.transport import LearnerServer, TransportConfig

from ..replay_episodes import SPEC
from ..transport_rig import ActorRig, make_server, wait_until

Attend = Callable[[], tuple[AsyncOperators, LearnerServer]]


@pytest.fixture
def attend(tmp_path: Path) -> Iterator[Attend]:
    """Start a learner's side of the run in ``tmp_path``, after the one before has ended; return it."""
    opened: list[Any] = []

    def close() -> None:
        while opened:
            opened.pop().close()

    def start() -> tuple[AsyncOperators, LearnerServer]:
        close()
        learner: Any = SimpleNamespace(updates=7)
        intake = Intake(tmp_path / "replay", SPEC)
        operators = AsyncOperators(LiveRun(tmp_path), learner, tmp_path)
        server = make_server(TransportConfig(f"unix:{tmp_path}/wire"), intake, paused=operators.was_paused)
        operators.attend(server, lambda text: None)
        opened.extend((intake, server, operators))
        return operators, server

    yield start
    close()


def test_a_pause_outlives_the_learner(attend: Attend, tmp_path: Path) -> None:
    _, server = attend()
    watch = LiveWatch(tmp_path)
    wait_until(lambda: watch.status() is not None)
    assert not server.paused
    watch.send(Command("pause"))
    wait_until((tmp_path / "paused").exists)
    rig = ActorRig(TransportConfig(f"unix:{tmp_path}/wire"), tmp_path / "spool")
    rig.join()
    for _ in range(2):
        _, server = attend()
        assert server.paused
        wait_until(lambda: rig.link.status.connected and rig.link.status.hold)
    wait_until(lambda: watch.status() is not None)
    watch.send(Command("resume"))
    wait_until(lambda: not (tmp_path / "paused").exists())
    assert not server.paused
    _, server = attend()
    assert not server.paused
    rig.close()


def test_what_there_is_to_say_of_each_actor(attend: Attend, tmp_path: Path) -> None:
    operators, server = attend()
    rig = ActorRig(TransportConfig(f"unix:{tmp_path}/wire"), tmp_path / "spool", "left")
    rig.join()
    rig.link.report(
        produced=1200, policy_version=5, refused_policies=0, held_seconds=3.0, practice_state="", practice={}
    )
    wait_until(lambda: server.actors()["left"].produced == 1200)
    for changed in (True, False, True):
        operators.note_step("left", Verdict(changed=changed))
    operators.note_stop("left", "contact_stop", 1150)
    (robot,) = operators._robots(server)
    rig.close()
    assert (robot.name, robot.connected) == ("left", True)
    assert robot.facts == {
        "steps": "1,200",
        "steps/s": robot.facts["steps/s"],
        "in its spool": "0",
        "policy": "2 updates old",
        "held": "3 s",
        "changed by safety": "2",
        "last stop": "contact_stop at step 1,150",
    }


def test_a_rate_is_that_of_the_last_seconds_and_of_one_session() -> None:
    rate = _Rate()
    found = [rate.of(10 * second, float(second)) for second in range(15)]
    assert found[0] == 0.0 and found[1:] == [10.0] * 14
    assert rate.of(140, 24.0) == 0.0
    assert rate.of(2, 25.0) == 0.0 and rate.of(4, 26.0) == 2.0, "the actor was started anew"
