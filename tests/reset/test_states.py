"""The state machine of practice, pure: a table and an injected clock."""

import pytest

from robo_rl.core import ManualClock
from robo_rl.reset.states import TRANSITIONS, Event, PracticeMachine, PracticeState

SECOND = 1_000_000_000


def test_a_crash_leads_by_rest_and_recovery_back_to_learning():
    machine = PracticeMachine(ManualClock())
    assert machine.current is PracticeState.LEARNING
    for event, state in (
        (Event.CRASH, PracticeState.CRASHED),
        (Event.RECOVERY_BEGINS, PracticeState.RECOVERY),
        (Event.RECOVERED, PracticeState.LEARNING),
        (Event.STUCK, PracticeState.RECOVERY),
        (Event.GAVE_UP, PracticeState.TELEOP),
        (Event.HANDED_BACK, PracticeState.LEARNING),
    ):
        assert machine.happens(event) is state
        assert machine.current is state
    assert machine.entries == {
        PracticeState.LEARNING: 2,
        PracticeState.CRASHED: 1,
        PracticeState.RECOVERY: 2,
        PracticeState.TELEOP: 1,
    }


def test_a_person_can_take_over_at_any_time():
    sources = {state for state, event in TRANSITIONS if event is Event.TAKEN_OVER}
    assert sources == set(PracticeState) - {PracticeState.TELEOP}


@pytest.mark.parametrize("event", [Event.RECOVERED, Event.RECOVERY_BEGINS, Event.GAVE_UP, Event.HANDED_BACK])
def test_what_cannot_happen_is_refused_and_changes_nothing(event):
    machine = PracticeMachine(ManualClock())
    with pytest.raises(
        ValueError, match=f"{event.name} cannot happen in LEARNING; what can: CRASH, STUCK, EPISODE_ENDED, TAKEN_OVER"
    ):
        machine.happens(event)
    assert machine.current is PracticeState.LEARNING
    assert set(machine.entries.values()) == {0}


def test_every_state_can_be_reached_and_left():
    assert set(TRANSITIONS.values()) == set(PracticeState)
    assert {before for before, _ in TRANSITIONS} == set(PracticeState)


def test_time_is_counted_by_state():
    clock = ManualClock(5 * SECOND)
    machine = PracticeMachine(clock)
    clock.advance_ns(3 * SECOND)
    machine.happens(Event.STUCK)
    clock.advance_ns(SECOND // 2)
    assert machine.seconds(PracticeState.RECOVERY) == 0.5
    machine.happens(Event.RECOVERED)
    clock.advance_ns(SECOND)
    assert machine.seconds(PracticeState.LEARNING) == 4.0
    assert machine.seconds(PracticeState.RECOVERY) == 0.5
    assert machine.seconds(PracticeState.CRASHED) == 0.0


def test_a_saved_machine_goes_on():
    clock = ManualClock()
    machine = PracticeMachine(clock)
    clock.advance_ns(2 * SECOND)
    machine.happens(Event.CRASH)
    clock.advance_ns(SECOND)
    saved = machine.state()
    other = PracticeMachine(ManualClock(99 * SECOND))
    other.load(saved)
    assert other.current is PracticeState.CRASHED
    assert other.entries == machine.entries
    assert other.seconds(PracticeState.CRASHED) == 1.0
    assert other.seconds(PracticeState.LEARNING) == 2.0
