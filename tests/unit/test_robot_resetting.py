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


def service(*outcomes: Any) -> tuple[ResetService, list[float]]:
    """Return a reset whose calls have these outcomes, and the times at which it is called [s]."""
    clock, times, left = ManualClock(), [], list(outcomes)

    def call(request: Any, timeout: float) -> Any:
        times.append(clock.now_ns() * 1e-9)
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    node: Any = SimpleNamespace(
        create_client=lambda kind, name: SimpleNamespace(call=call, wait=lambda timeout: True),
        types=SimpleNamespace(make=lambda kind: None),
    )
    return ResetService(node, ResetConfig(attempts=3, pause=1.0), clock, "lab"), times


@pytest.mark.parametrize(
    "outcomes", [(DONE,), (ENDED, DONE), (REPLACED, DONE), (REPLACED, ENDED, DONE), (REFUSED, REPLACED, DONE)]
)
def test_a_server_that_ends_or_is_started_again_is_called_again(outcomes: tuple[Any, ...]) -> None:
    reset, times = service(*outcomes)
    reset.call()
    assert times == pytest.approx([float(number) for number in range(len(outcomes))])


@pytest.mark.parametrize("outcome", [ENDED, REPLACED, REFUSED])
def test_what_fails_every_time_is_called_again_in_the_next_episode(outcome: Any) -> None:
    reset, times = service(*[outcome] * 3, DONE)
    with pytest.raises(SafetyStop, match="the reset failed 3 times: ") as caught:
        reset.call()
    assert str(getattr(outcome, "message", outcome)) in str(caught.value)
    reset.call()
    assert len(times) == 4


def test_one_that_does_not_answer_in_time_is_not_called_again() -> None:
    reset, times = service(REPLACED, SILENT)
    for _ in range(3):
        with pytest.raises(SafetyStop, match="the reset may still be running"):
            reset.call()
    assert len(times) == 2
