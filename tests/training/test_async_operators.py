"""What people do to a run whose actors are elsewhere, and see of each actor."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import Verdict
from robo_rl.replay import Intake
from robo_rl.telemetry import Command, LiveRun, LiveWatch
from robo_rl.training.async_operators import Absence, AsyncOperators, StandingActor, _Rate
from robo_rl.transport import ActorView, LearnerServer, TransportConfig
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.leases import Lease
from robo_rl.transport.received import trusted_statistics
from robo_rl.transport.views import WORDS_CHARACTERS, WORDS_KEPT

from ..rigs.replay_episodes import SPEC
from ..rigs.transport_rig import ActorRig, make_server, wait_until

Attend = Callable[..., tuple[AsyncOperators, LearnerServer]]


@pytest.fixture
def attend(tmp_path: Path) -> Iterator[Attend]:
    """Start a learner's side of the run in ``tmp_path``, after the one before has ended; return it."""
    opened: list[Any] = []
    messages: list[str] = []

    def close() -> None:
        while opened:
            opened.pop().close()

    def start(notify: Callable[[str], None] = messages.append) -> tuple[AsyncOperators, LearnerServer]:
        close()
        learner: Any = SimpleNamespace(updates=7)
        intake = Intake(tmp_path / "replay", SPEC)
        operators = AsyncOperators(LiveRun(tmp_path), learner, tmp_path)
        server = make_server(TransportConfig(f"unix:{tmp_path}/wire"), intake, paused=operators.was_paused)
        operators.attend(server, notify)
        opened.extend((intake, server, operators))
        operators.messages = messages  # type: ignore[attr-defined]
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


def test_words_of_actors_reach_the_terminal_once_and_those_who_watch(attend: Attend, tmp_path: Path) -> None:
    operators, server = attend()
    messages: list[str] = operators.messages  # type: ignore[attr-defined]
    rig = ActorRig(TransportConfig(f"unix:{tmp_path}/wire"), tmp_path / "spool", "left")
    rig.join()
    rig.link.notify("Stopped: emergency stop (a test)")
    wait_until(lambda: "left: Stopped: emergency stop (a test)" in messages)
    rig.link.notify("\x1b[2J" + "x" * 1000 + "\nStored")
    wait_until(lambda: len(messages) == 2)
    assert len(messages[1]) <= WORDS_CHARACTERS + len("left: ") and messages[1].isprintable()
    _, server = attend()  # the learner is started again: what it heard is not said again, and what is new is
    wait_until(lambda: rig.link.status.connected and "left" in server.actors())
    rig.link.notify("the reset failed 3 times: door open")
    wait_until(lambda: messages[-1].startswith("left: the reset failed 3 times: door open"))
    assert len(messages) == 3
    rig.close()


def test_scenes_of_actors_reach_those_who_watch_in_bounded_size(attend: Attend, tmp_path: Path) -> None:
    operators, _ = attend()
    messages: list[str] = operators.messages  # type: ignore[attr-defined]
    rig = ActorRig(TransportConfig(f"unix:{tmp_path}/wire"), tmp_path / "spool", "left")
    rig.join()
    folder = tmp_path / "live" / "scenes"

    def show(geometry: bytes, frame: bytes, last: str) -> None:
        rig.link.show_scene(geometry, frame)
        rig.link.notify(last)  # sent at once, and with the scene
        wait_until(lambda: any(words.endswith(last) for words in messages))

    show(b'{"geoms": []}', b'{"poses": []}', "the first")
    wait_until(lambda: (folder / "left@frame.json").exists())
    assert (folder / "left@geometry.json").read_bytes() == b'{"geoms": []}'
    first = (folder / "left@geometry.json").stat().st_mtime_ns
    show(b"", b" " * (33 << 10), "too large")
    show(b" " * ((1 << 20) + 1), b'{"poses": [0]}', "too large, too")
    wait_until(lambda: (folder / "left@frame.json").read_bytes() == b'{"poses": [0]}')
    assert (folder / "left@geometry.json").stat().st_mtime_ns == first, "it has not changed"
    rig.close()


def test_an_actor_that_leaves_is_said_to_have_left_unless_the_run_is_over(attend: Attend, tmp_path: Path) -> None:
    _, server = attend()
    for is_over in (False, True):
        server.guide(room=9, stop=is_over, env_steps=0)
        rig = ActorRig(TransportConfig(f"unix:{tmp_path}/wire"), tmp_path / f"spool_{is_over}", "left")
        session = rig.join()
        rig.finish()
        rig.close()
        notes = server.take_notes()
        assert (f"left left (session {session})" in notes) == (not is_over), notes


def test_people_command_a_run_whose_terminal_is_closed(
    attend: Attend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, server = attend(notify=closed_terminal)
    rig = ActorRig(TransportConfig(f"unix:{tmp_path}/wire"), tmp_path / "spool", "left")
    rig.join()
    rig.link.notify("Stopped: a test")
    watch = LiveWatch(tmp_path)
    for name, paused in (("pause", True), ("resume", False), ("pause", True)):
        wait_until(lambda: watch.status() is not None)
        watch.send(Command(name))
        wait_until(lambda: server.paused == paused)  # noqa: B023
    rig.close()
    assert capsys.readouterr().err.count("OSError: the terminal is closed") == 1


def closed_terminal(text: str) -> None:
    raise OSError("the terminal is closed")


@pytest.mark.parametrize(
    ("present", "reports"),
    [
        ((), [20, 80]),  # actors start, which takes a while
        (((5, 30),), [34, 94]),
        (((0, 100),), []),
        (((5, 30), (33, 50)), [54]),  # away for a moment
        (((50, 100),), [20]),
    ],
)
def test_that_nobody_acts_is_said(present: tuple[tuple[int, int], ...], reports: list[int]) -> None:
    absence = Absence(0.0)
    seen = [
        second
        for second in range(100)
        if absence.look(not any(first <= second <= last for first, last in present), float(second))
    ]
    assert seen == reports


def test_a_flood_of_words_is_bounded_and_says_so() -> None:
    lease = Lease(1, 0, threading.Lock())
    for number in range(3):
        lease.statistics = messages.ActorStatistics(words=[f"{number}.{each}" for each in range(500)])
        lease.statistics.words_said = 500 * (number + 1)
        lease.statistics = trusted_statistics(lease.statistics)
        lease.receive_words()
        lease.receive_words()  # the same message again, as after a reply that was lost
    words = lease.take_words()
    assert words == [f"{2 * WORDS_KEPT} earlier messages are left out", *(f"2.{each}" for each in range(490, 500))]
    assert lease.take_words() == []
    lease.statistics = messages.ActorStatistics(words=["odd"], words_said=2**64 - 1)
    lease.receive_words()
    lease.statistics = messages.ActorStatistics(words=["odd"], words_said=3)
    lease.receive_words()
    assert lease.take_words() == ["odd"]


def view(**changes: Any) -> ActorView:
    facts = {"session": 1, "silent_seconds": 0.1, "produced": 5, "spooled": 0, "policy_version": 1, "left": False}
    facts |= {"refused_policies": 0, "held_seconds": 0.0, "practice_state": "", "practice": {}, "pictures": {}}
    return ActorView(**{**facts, "picture_problem": "", **changes})


def test_an_actor_that_stands_still_is_spoken_of_within_five_seconds() -> None:
    standing = StandingActor(0.0)
    assert [bool(standing.look(view(), t / 10)) for t in range(50)].count(True) == 1
    assert standing.look(view(), 4.9) == "" and standing.look(view(), 64.5) == "has taken no step for 64 s"
    assert not standing.look(view(produced=6), 70.0) and not standing.look(view(produced=6), 73.9)
    messages = standing.look(view(produced=6, silent_seconds=4.2, practice_state="RECOVERY"), 74.1)
    assert messages == "has taken no step for 4 s (RECOVERY) and has been silent for 4 s"


@pytest.mark.parametrize(
    "changes",
    [
        lambda second: {"held_seconds": float(second)},
        lambda second: {"left": True},
        lambda second: {"policy_version": -1},
        lambda second: {"produced": second},
    ],
)
def test_an_actor_that_has_to_wait_or_has_left_is_not(changes: Callable[[int], dict[str, Any]]) -> None:
    standing = StandingActor(0.0)
    assert not any(standing.look(view(**changes(second)), float(second)) for second in range(1, 200))
