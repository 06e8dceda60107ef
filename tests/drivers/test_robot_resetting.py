"""The reset of a robot whose server fails, ends, is started again, or does not answer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import DriverError, ManualClock, ResetLatch, SafetyStop
from robo_rl.drivers.robot.config import ResetConfig
from robo_rl.drivers.robot.resetting import ResetService
from robo_rl.drivers.ros2 import ServerLostError

DONE, REFUSED = SimpleNamespace(success=True, message=""), SimpleNamespace(success=False, message="the door is open")
ENDED, REPLACED = ServerLostError("the server has ended"), ServerLostError("a new server has taken the place")
SILENT = DriverError("did not answer within 30 s")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset that did not answer is remembered in this folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def service(
    *outcomes: Any, replaced: bool = True, servers: set[int] | None = None, appears: int = 0
) -> tuple[ResetService, list[float]]:
    """Return a reset whose calls have these outcomes, and the times at which it is called [s].

    A server that is lost is ``replaced`` by another one, or comes back, unless ``servers`` says which there are;
    then server number ``appears`` appears.
    """
    clock, times, left, lost = ManualClock(), [], list(outcomes), [0]

    def call(request: Any, timeout: float) -> Any:
        times.append(clock.now_ns() * 1e-9)
        outcome = left.pop(0)
        if isinstance(outcome, ServerLostError):
            lost[0] += replaced
            if servers is not None:
                servers.add(appears)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def present() -> frozenset[int]:
        return frozenset([lost[0]] if servers is None else servers)

    client = SimpleNamespace(call=call, wait=lambda timeout: True, servers=present, service="home")
    node: Any = SimpleNamespace(create_client=lambda kind, name: client, types=SimpleNamespace(make=lambda kind: None))
    return ResetService(node, ResetConfig(attempts=3, pause=1.0), clock, "lab"), times


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((DONE,), [0]),
        ((ENDED, DONE), [0, 0]),
        ((REPLACED, DONE), [0, 0]),
        ((REPLACED, ENDED, DONE), [0, 0, 0]),
        ((REFUSED, REPLACED, DONE), [0, 1, 1]),
        ((REPLACED, REPLACED, REPLACED, REPLACED, DONE), [0] * 5),
    ],
)
def test_a_server_that_another_one_replaces_is_called_at_once(outcomes: tuple[Any, ...], expected: list[float]) -> None:
    reset, times = service(*outcomes)
    reset.call()
    assert times == pytest.approx(expected)


def test_what_fails_every_time_is_called_again_in_the_next_episode() -> None:
    reset, times = service(*[REFUSED] * 3, DONE)
    with pytest.raises(SafetyStop, match="the reset failed 3 times: the door is open"):
        reset.call()
    reset.call()
    assert times == pytest.approx([0, 1, 2, 2])


@pytest.mark.parametrize("outcome", [ENDED, REPLACED])
def test_a_server_that_is_lost_and_comes_back_may_still_be_at_it(outcome: Any) -> None:
    reset, times = service(outcome, DONE, replaced=False)
    for _ in range(3):
        with pytest.raises(SafetyStop, match="may still be running"):
            reset.call()
    assert len(times) == 1


def test_one_that_does_not_answer_in_time_is_not_called_again() -> None:
    reset, times = service(REPLACED, SILENT)
    for _ in range(3):
        with pytest.raises(SafetyStop, match="may still be running"):
            reset.call()
    assert len(times) == 2


@pytest.mark.parametrize("others", [{1}, {1, 2}, {5, 6, 7}])
def test_several_servers_would_each_move_the_robot_and_none_is_called(others: set[int]) -> None:
    servers = {0} | others
    reset, times = service(DONE, servers=servers)
    for _ in range(2):
        with pytest.raises(SafetyStop, match=f"has {len(servers)} servers, and each would move") as shared:
            reset.call()
        assert shared.value.reason == "reset_shared" and shared.value.waits
        assert reset.missing() == [str(shared.value)]
    assert times == [] and not ResetLatch("lab").is_held()
    servers -= others
    assert reset.missing() == []
    reset.call()
    assert len(times) == 1


def test_a_server_that_appears_while_the_latch_is_waited_for_is_not_called_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers, take = {0}, ResetLatch.take

    def take_late(latch: ResetLatch) -> str | None:
        servers.add(1)
        return take(latch)

    monkeypatch.setattr(ResetLatch, "take", take_late)
    reset, times = service(DONE, servers=servers)
    with pytest.raises(SafetyStop, match="has 2 servers"):
        reset.call()
    assert times == [] and not ResetLatch("lab").is_held()


@pytest.mark.parametrize(("ends", "left"), [("old", {1}), ("both", {2}), ("new", {0})])
def test_a_server_that_appears_during_a_reset_is_called_only_once_the_other_has_ended(
    ends: str, left: set[int]
) -> None:
    """Whoever was asked may still move the robot, or be dead and not yet forgotten."""
    servers = {0}
    reset, times = service(REPLACED, DONE, servers=servers, appears=1)
    for _ in range(3):
        with pytest.raises(SafetyStop, match="has 2 servers"):
            reset.call()
    assert len(times) == 1 and ResetLatch("lab").is_under_way()
    servers.clear()
    servers |= left
    if ends == "new":
        with pytest.raises(SafetyStop, match="may still be running") as stop:
            reset.call()
        assert stop.value.reason == "reset_unanswered" and len(times) == 1
    else:
        reset.call()
        assert len(times) == 2 and not ResetLatch("lab").is_held()
