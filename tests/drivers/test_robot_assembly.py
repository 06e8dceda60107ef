"""Which messages make one observation, by an injected clock (fault cases 1, 2, 6 and 24), and the rate of steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robo_rl.drivers.robot.assembly import ObservationAssembler, SourceTiming
from robo_rl.drivers.robot.rate import RateKeeper, percentiles

MS = 1_000_000


def assembler(align_to: str | None = None) -> ObservationAssembler:
    timings = {"joints": SourceTiming(100 * MS), "front": SourceTiming(200 * MS, delay_ns=30 * MS)}
    return ObservationAssembler(timings, align_to)


def test_nothing_is_made_up_while_a_source_is_missing():
    sources = assembler()
    sources.put("joints", "j0", 1000 * MS)
    assert sources.missing() == ["front"]
    assert sources.select(1000 * MS) is None
    assert sources.stale(1000 * MS) == {"front": float("inf")}


def test_the_newest_of_each_and_the_age_of_the_oldest():
    sources = assembler()
    sources.put("front", "f0", 1000 * MS)
    for number in range(5):
        sources.put("joints", f"j{number}", (1000 + 4 * number) * MS)
    selection = sources.select(1020 * MS)
    assert selection is not None
    assert selection.messages == {"joints": "j4", "front": "f0"}
    assert selection.stamp_ns == 970 * MS, "the camera's delay counts"
    assert selection.measured_ns == {"joints": 1016 * MS, "front": 970 * MS}
    assert selection.expires_ns == 1116 * MS, "the joints are too old before it is"


def test_a_source_is_stale_by_its_own_limit_and_comes_back():
    sources = assembler()
    sources.put("front", "f0", 1000 * MS)
    sources.put("joints", "j0", 1000 * MS)
    assert sources.select(1100 * MS) is not None
    assert sources.select(1101 * MS) is None
    assert sources.stale(1101 * MS) == {"joints": pytest.approx(0.101)}
    sources.put("joints", "j1", 1150 * MS)
    assert sources.select(1170 * MS) is not None
    assert list(sources.stale(1171 * MS)) == ["front"]


def test_who_can_do_without_a_source_need_not_wait_for_it():
    sources = assembler()
    sources.put("joints", "j0", 1000 * MS)
    for now, expected in ((1000, {"joints": "j0"}), (1101, None)):
        selection = sources.select(now * MS, without=("front",))
        assert (selection and selection.messages) == expected
    sources.put("front", "f0", 1110 * MS)
    sources.put("joints", "j1", 1110 * MS)
    selection = sources.select(1110 * MS, without=("front",))
    assert selection is not None and selection.messages == {"joints": "j1"} and selection.stamp_ns == 1110 * MS


def test_a_message_that_is_repeated_with_its_old_stamp_is_nothing_new():
    sources = assembler()
    sources.put("front", "f0", 1000 * MS, (7, 0))
    for now in range(1000, 1600, 10):
        sources.put("joints", now, now * MS, (now, 0))
        sources.put("front", "f0 again", now * MS, (7, 0))
    assert list(sources.stale(1600 * MS)) == ["front"]
    sources.put("front", "f1", 1600 * MS, (8, 0))
    assert sources.select(1600 * MS) is not None
    sources.clear()
    sources.put("front", "f1", 1610 * MS, (8, 0))
    assert sources.missing() == ["joints"], "after a reset the first message counts, whatever its stamp"


def test_what_holds_grows_not_old_and_outlives_a_reset():
    sources = ObservationAssembler({"joints": SourceTiming(100 * MS), "ready": SourceTiming(None)})
    sources.put("ready", True, 0)
    assert sources.select(0) is None
    sources.clear()
    sources.put("joints", "j0", 9000 * MS)
    selection = sources.select(9050 * MS)
    assert selection is not None
    assert selection.messages == {"joints": "j0", "ready": True}
    assert (selection.stamp_ns, selection.expires_ns) == (9000 * MS, 9100 * MS)


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_wall_clock_that_jumps_ages_nothing_and_hides_nothing(jump):
    sources = assembler()
    wall = 1_800_000_000
    for number in range(100):
        now = (1000 + 10 * number) * MS
        seconds = wall + (jump if number >= 50 else 0)
        sources.put("joints", number, now, (seconds, number))
        sources.put("front", number, now, (seconds, number))
        selection = sources.select(now)
        assert selection is not None
        assert selection.messages["joints"] == number
    assert sources.select(1990 * MS + 101 * MS) is None


@given(
    st.lists(st.integers(0, 2000), min_size=1, max_size=60),
    st.lists(st.integers(0, 2000), min_size=1, max_size=60),
    st.integers(30, 500),
)
def test_aligned_sources_are_nearest_to_the_reference(joints, front, max_age):
    timings = {"joints": SourceTiming(10**12), "front": SourceTiming(max_age * MS, delay_ns=30 * MS)}
    sources = ObservationAssembler(timings, align_to="front")
    for at, source in sorted([(at, "joints") for at in joints] + [(at, "front") for at in front]):
        sources.put(source, at, at * MS)
    now, reference = max(*joints, *front), max(front) - 30
    selection = sources.select(now * MS)
    if now - reference > max_age or reference < min(joints):
        assert selection is None
        return
    assert selection is not None
    assert abs(selection.messages["joints"] - reference) == min(abs(at - reference) for at in joints)
    assert selection.stamp_ns == min(reference, selection.messages["joints"]) * MS
    assert selection.expires_ns == (reference + max_age) * MS


def test_a_picture_that_comes_late_meets_the_joints_of_its_time_however_fast_they_are():
    timings = {"joints": SourceTiming(100 * MS), "front": SourceTiming(200 * MS, delay_ns=80 * MS)}
    sources = ObservationAssembler(timings, align_to="front")
    for at in range(10_000):
        sources.put("joints", at, at * MS)
    sources.put("front", "picture", 9990 * MS)
    selection = sources.select(10_000 * MS)
    assert selection is not None
    assert selection.messages == {"joints": 9910, "front": "picture"}
    assert len(sources._kept["joints"]) == 201, "what no picture can be matched to is forgotten"
    sources.clear()
    for at in range(10_001, 10_100):
        sources.put("joints", at, at * MS)
    sources.put("front", "picture", 10_010 * MS)
    assert sources.select(10_100 * MS) is None, "it was taken before what is known of the joints"


def test_what_was_measured_too_long_before_or_after_is_not_matched():
    timings = {"joints": SourceTiming(50 * MS), "front": SourceTiming(200 * MS), "ready": SourceTiming(None)}
    sources = ObservationAssembler(timings, align_to="front")
    for at in (820, 940):
        sources.put("joints", at, at * MS)
        sources.put("ready", at, at * MS)
    sources.put("front", "picture", 880 * MS)
    assert sources.stale(950 * MS) == {}
    assert sources.select(950 * MS) is None
    sources.put("front", "picture", 900 * MS)
    selection = sources.select(950 * MS)
    assert selection is not None
    assert selection.messages == {"joints": 940, "front": "picture", "ready": 940}
    assert (selection.stamp_ns, selection.expires_ns) == (900 * MS, 1100 * MS)


def test_periods_follow_one_another_without_drift():
    rate, now = RateKeeper(50 * MS), 0
    rng = np.random.default_rng(0)
    for number in range(1, 1001):
        end = rate.begin(now + (int(rng.integers(0, 22 * MS)) if number > 1 else 0))
        assert end == number * 50 * MS
        now = end + int(rng.integers(0, 2 * MS))
        rate.ended(now)
    assert (rate.periods, rate.overruns) == (1000, 0)
    median, high = percentiles(rate.late)
    assert 0 < median < high < 2
    assert "1,000 control periods of 50.0 ms, 0 began too late" in str(rate)


def test_commands_are_timed_from_their_observation():
    rate = RateKeeper(50 * MS)
    for number in range(1, 101):
        rate.commanded(now_ns=number * 50 * MS + number * MS, complete_ns=number * 50 * MS, stamp_ns=number * 49 * MS)
    assert percentiles(rate.reactions) == pytest.approx((50.5, 99.01))
    assert percentiles(rate.ages) == pytest.approx((101.0, 198.02))
    assert "commands went out 50.5 ms (99.0 ms) after their observation was complete" in str(rate)
    assert percentiles([]) == (0.0, 0.0)


def test_overruns_are_counted_and_get_their_whole_period():
    rate = RateKeeper(50 * MS)
    end = rate.begin(0)
    for number in range(1, 6):
        now = end + 26 * MS
        end = rate.begin(now)
        assert end == now + 50 * MS
        assert (rate.overruns, rate.overruns_in_row) == (number, number)
    rate.begin(end + 25 * MS)
    assert (rate.overruns, rate.overruns_in_row) == (5, 0)
    rate.begin(end + 500 * MS)
    rate.restart()
    assert rate.overruns_in_row == 0
    rate.begin(end + 10_000 * MS)
    assert rate.overruns == 6, "the first period after a restart cannot be late"
