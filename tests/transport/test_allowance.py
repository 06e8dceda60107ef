"""What one actor may send: a mean rate, a second's worth at once."""

from robo_rl.core import ManualClock
from robo_rl.transport.allowance import Allowance

SECOND = 1_000_000_000


def test_without_a_limit_anything_may_come() -> None:
    allowance = Allowance(None, ManualClock())
    assert all(allowance.spend(1e9) == 0 for _ in range(100))


def test_a_seconds_worth_and_one_more_then_as_much_as_time_gives() -> None:
    clock = ManualClock()
    allowance = Allowance(10.0, clock)
    assert [allowance.spend(1) for _ in range(11)] == [0.0] * 11
    assert allowance.spend(1) == 0.1  # in debt by one
    clock.advance_ns(SECOND // 10)
    assert allowance.spend(1) == 0
    assert allowance.spend(1) > 0
    clock.advance_ns(100 * SECOND)
    assert [allowance.spend(1) > 0 for _ in range(12)] == [False] * 11 + [True], "saved up for one second alone"


def test_one_large_message_is_taken_and_paid_for() -> None:
    clock = ManualClock()
    allowance = Allowance(1000.0, clock)
    assert allowance.spend(5000) == 0
    assert allowance.spend(1) == 4.0
    clock.advance_ns(4 * SECOND)
    assert allowance.spend(1) == 0


def test_over_a_long_time_the_mean_is_the_limit() -> None:
    clock = ManualClock()
    allowance = Allowance(100.0, clock)
    taken = 0
    for _ in range(60_000):
        clock.advance_ns(SECOND // 1000)
        taken += allowance.spend(1) == 0
    assert abs(taken - 60 * 100) <= 101
