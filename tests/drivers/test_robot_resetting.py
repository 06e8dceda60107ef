"""The reset of a robot whose server fails, ends, is started again, or does not answer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.core import DriverError, ManualClock, SafetyStop
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


def service(*outcomes: Any, replaced: bool = True) -> tuple[ResetService, list[float]]:
    """Return a reset whose calls have these outcomes, and the times at which it is called [s].

    A server that is lost is ``replaced`` by another one, or comes back.
    """
    clock, times, left, lost = ManualClock(), [], list(outcomes), [0]

    def call(request: Any, timeout: float) -> Any:
        times.append(clock.now_ns() * 1e-9)
        outcome = left.pop(0)
        if isinstance(outcome, ServerLostError):
            lost[0] += replaced
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    client = SimpleNamespace(call=call, wait=lambda timeout: True, servers=lambda: frozenset([lost[0]]))
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
