"""What people hear of a learner that does not answer."""

import grpc
import pytest

from robo_rl.core import ManualClock
from robo_rl.transport import TransportConfig
from robo_rl.transport.connection import SilenceNotice
from robo_rl.transport.service import RETRY_KEY


class Failed(grpc.RpcError):  # type: ignore[misc]
    """What a call ends in."""

    def __init__(self, details: str, retry: str = "") -> None:
        self._details, self._retry = details, retry

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> list[tuple[str, str]]:
        return [(RETRY_KEY, self._retry)] if self._retry else []


def test_a_learner_that_does_not_answer_is_told_after_a_while_and_then_now_and_then() -> None:
    clock, messages = ManualClock(), list[str]()
    notice = SilenceNotice(TransportConfig("localhost:5"), messages.append, clock)
    times = []
    for second in range(70):
        before = len(messages)
        notice.failed(Failed("Connection refused"))
        if len(messages) > before:
            times.append(second)
        clock.advance_ns(10**9)
    assert times == [5, 35, 65]
    assert messages[0] == (
        "The learner at localhost:5 has not answered for 5 s: Connection refused. Check the address, that the learner "
        "runs there, and that it has no certificates either."
    )
    notice.answered()
    notice.failed(Failed("Connection refused"))
    assert messages[3:] == ["The learner at localhost:5 answers again"], "what failed after it is another silence"


@pytest.mark.parametrize("seconds", ["0.5", "5.000"])
def test_a_learner_that_has_an_actor_wait_is_no_silent_one(seconds: str) -> None:
    clock, messages = ManualClock(), list[str]()
    notice = SilenceNotice(TransportConfig("localhost:5"), messages.append, clock)
    clock.advance_ns(6 * 10**9)
    notice.failed(Failed("32 actors are connected already", seconds))
    assert messages == ["The learner at localhost:5 makes this actor wait: 32 actors are connected already"]
