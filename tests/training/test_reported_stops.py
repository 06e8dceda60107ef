"""Reports of an actor to the training's terminal: stops, while it is held and afterwards, and words of its driver."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.app import build_agent, build_backend
from robo_rl.core import Closing, EmergencyStop, Interruption, Verdict, announce, listening
from robo_rl.training import remote_actor
from robo_rl.transport.views import LinkStatus

from ..rigs.composition import composed_config
from .test_remote_actor import OVERRIDES, Link, act


class EventfulLink(Link):
    """Link of a run that is held after two steps, and in which something happens at later queries of its status."""

    later = 0
    events: dict[int, Callable[[], None]]

    @property
    def status(self) -> LinkStatus:
        if len(self.records) >= 2:
            self.later += 1
            self.events.pop(self.later, lambda: None)()
        return super().status


@pytest.mark.parametrize(
    ("pressed", "released", "held", "reports"),
    [
        ((4,), (60,), 12, 1),  # in a pause, and released long after it
        ((4,), (8,), 12, 1),  # and released in the same pause
        ((4, 20), (12, 60), 30, 2),  # twice in one pause
        ((4,), (30,), 0, 1),  # without a pause
        ((4, 100), (60, 120), 12, 2),  # again, after further steps
        ((4, 100), (60, 120), 0, 2),
    ],
)
def test_each_stop_is_reported_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pressed: tuple[int, ...],
    released: tuple[int, ...],
    held: int,
    reports: int,
) -> None:
    monkeypatch.setattr(remote_actor, "WAIT_SECONDS", 0.0)
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend, stop = build_backend(config), EmergencyStop(tmp_path / "stop")
    link = EventfulLink({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=20)
    link.holds = {2: held}
    link.events = {query: lambda: stop.press("a test") for query in pressed} | dict.fromkeys(released, stop.rearm)
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert [text for text in link.words if text.startswith("Stopped:")] == reports * [
        "Stopped: emergency stop (a test); when all is safe: robo-rl rearm"
    ]
    assert not link.events, "all of it happened"


@pytest.mark.parametrize("reason", ["contact_stop", "violation_budget", "joints_jump"])
def test_a_stop_by_a_filter_is_reported_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    config = composed_config("actor", *OVERRIDES, f"safety.emergency_stop.file={tmp_path}/stop")
    backend, step, count = build_backend(config), type(build_backend(config)).step, 0

    def stopping(action: Any) -> Any:
        nonlocal count
        count += 1
        taken = step(backend, action)
        verdict = Verdict(True, True, (reason,), f"{reason} of a test")
        return dataclasses.replace(taken, verdict=verdict, truncated=True) if count % 3 == 0 else taken

    monkeypatch.setattr(backend, "step", stopping)
    link = EventfulLink({0: (1, build_agent(config.agent, backend.spec, 0).policy_state())}, steps=7)
    link.events = {}
    with Interruption() as interruption:
        act(config, backend, interruption, link)
    assert link.words == [f"Stopped at step {number}: {reason} of a test" for number in (2, 5)]


def test_announcements_reach_all_who_listen_and_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    first: list[str] = []
    second: list[str] = []
    with listening(first.append):
        with listening(second.append):
            thread = threading.Thread(target=announce, args=("the camera is lost",))
            thread.start()
            thread.join()
        announce("the camera is back")
    announce("nobody listens")
    assert first == ["the camera is lost", "the camera is back"] and second == ["the camera is lost"]
    assert capsys.readouterr().out.splitlines() == [*first, "nobody listens"]


class Entered(Closing):
    """A context of the attributes of ``parts``."""

    def __init__(self, parts: SimpleNamespace) -> None:
        vars(self).update(vars(parts))

    def close(self) -> None: ...


@pytest.mark.parametrize("joins", [True, False])
def test_an_actor_passes_on_what_its_driver_announces(
    joins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: list[str] = []

    def join(*_: Any) -> bool:
        announce("The control loop has no real-time priority")
        return joins

    def link(*_: Any) -> Any:
        parts = SimpleNamespace(notify=words.append, join=join, start=lambda: None, run="run", session=1)
        return Entered(parts)

    def session(*_: Any) -> Any:
        return SimpleNamespace(run=lambda: announce("the gripper is lost"), finish=lambda: None)

    monkeypatch.setattr(remote_actor, "LearnerLink", link)
    monkeypatch.setattr(remote_actor, "ActingSession", session)
    config = composed_config("actor", *OVERRIDES, f"actor.spool={tmp_path}/spool")
    with Interruption() as interruption:
        assert remote_actor.RemoteActor(config, build_backend(config), interruption).run() == 0
    announce("the actor has ended")
    assert words == ["The control loop has no real-time priority", "the gripper is lost"][: 1 + joins]
