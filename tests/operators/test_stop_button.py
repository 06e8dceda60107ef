"""Re-arming from a page: what the person saw is released, and nothing else."""

import asyncio
import time
from collections.abc import Mapping
from threading import Event
from typing import Any

import pytest

from robo_rl.core import GuardBeat, MonotonicClock, OwnStop
from robo_rl.core.emergency import default_file, file_of
from robo_rl.core.latch import Latch
from robo_rl.operators.stop_button import StopButton, holds_of_robots, rearm_seen


def test_a_page_shows_who_stopped_which_robot_and_why_and_releases_it() -> None:
    Latch(file_of(default_file(), "virtual")).press("safety guard: joint_states has been silent for 0.52 s")
    (entry,) = seen = holds_of_robots()
    assert entry["what"] == "robot virtual"
    assert entry["reason"].startswith("safety guard: joint_states has been silent for 0.52 s (at ")
    assert rearm_seen(seen) == ["Re-armed: robot virtual"]
    assert holds_of_robots() == []
    assert rearm_seen(seen) == ["Nothing holds robots still"]


def test_a_stop_that_comes_after_the_question_is_not_released() -> None:
    Latch(file_of(default_file(), "left")).press("the page")
    seen = holds_of_robots()
    Latch(default_file()).press("robo-rl stop")
    assert rearm_seen(seen) == ["Re-armed: robot left", "Still stopped: all robots: robo-rl stop"]
    for hostile in (None, "all robots", [{"what": "all robots"}], [["all robots"]]):
        assert rearm_seen(hostile) == ["Still stopped: all robots: robo-rl stop"]
    assert rearm_seen(holds_of_robots()) == ["Re-armed: all robots"]


def test_it_says_what_it_cannot_release() -> None:
    OwnStop("virtual").note({"service": "", "name": "virtual"})
    (line,) = rearm_seen(holds_of_robots())
    assert line.startswith("NOT re-armed: robot virtual, its own controller: it names no service for that")
    assert len(holds_of_robots()) == 1
    Latch(file_of(default_file(), "virtual")).press("the guard")
    Latch(file_of(default_file(), "other")).press("a person")
    first, *rest = rearm_seen(holds_of_robots())
    assert first == "Re-armed: robot other" and rest[0].startswith(
        "Re-armed: robot virtual, on this machine alone: its"
    )
    assert [hold["what"] for hold in holds_of_robots()] == ["robot virtual, its own controller"]


class _Earlier(MonotonicClock):
    """The machine's clock, some seconds ago."""

    def __init__(self, seconds: int) -> None:
        self._ns = seconds * 10**9

    def now_ns(self) -> int:
        return super().now_ns() - self._ns


def test_a_guard_that_no_longer_looks_is_released_however_long_ago_that_was() -> None:
    """The question lists it as it was; its age changes while a person reads."""
    GuardBeat("virtual", clock=_Earlier(5)).beat()
    (entry,) = seen = holds_of_robots()
    assert entry["reason"].startswith("the guard of robot 'virtual' no longer looks (at ")
    time.sleep(0.2)
    assert holds_of_robots() == seen
    assert rearm_seen(seen) == ["Re-armed: robot virtual"]
    assert holds_of_robots() == []


def test_a_stop_that_comes_while_a_controller_answers_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    OwnStop("left").note({"service": "/rearm", "name": "left"})
    right = Latch(file_of(default_file(), "right"))
    right.press("the page")

    def rearm_robot(**_: str) -> tuple[bool, str]:
        right.press("safety guard: silent")
        return True, ""

    monkeypatch.setattr("robo_rl.drivers.robot.own_stop.rearm_robot", rearm_robot)
    lines = rearm_seen(holds_of_robots())
    assert lines == ["Re-armed: robot left, its own controller", "Still stopped: robot right: safety guard: silent"]
    assert right.pressed() == "safety guard: silent"


def test_a_page_never_hears_that_robots_are_stopped_while_they_are_still_being_rearmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = Event()
    answers: list[str] = []
    monkeypatch.setattr("robo_rl.operators.stop_button.REARM_SECONDS", 0.05)
    monkeypatch.setattr("robo_rl.operators.stop_button.rearm_seen", lambda *_: [str(release.wait(20))])

    async def answer(message: Mapping[str, Any]) -> None:
        answers.append(message["answer"])

    async def run() -> None:
        StopButton().rearm(answer, [])
        while not answers:
            await asyncio.sleep(0.01)

    asyncio.run(run())
    release.set()
    assert answers == ["Not known to be re-armed after 0.05 s: robots may begin to move later"]
