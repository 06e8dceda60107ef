"""The watch on computed rewards: when it warns, when it does not, and whom it names."""

import json

import pytest

from robo_rl.evaluation.hacking import RewardWatch


def warnings(history: list[tuple[float, ...]], episodes: int = 5) -> list[str | None]:
    """What is said after each interval of (reward of a step, success rate, held-out reward of a step)."""
    watch, messages, number = RewardWatch(), [], 0
    for interval, (reward, success, *held) in enumerate(history):
        for each in range(episodes):
            held_out = {"apart": 10 * (held[0] - 0.02 * each)} if held else {}
            watch.add_episode(number, 10 * (reward + 0.01 * each), 10, success=False, held_out=held_out)
            number += 1
        messages.append(watch.evaluated(100 * (interval + 1), success))
        watch.load(json.loads(json.dumps(watch.state())))  # as if resumed
    return messages


def test_reward_that_rises_while_success_falls_is_warned_of() -> None:
    messages = warnings([(0.1, 0.0), (0.2, 0.6), (0.4, 0.5), (0.6, 0.3), (0.8, 0.1)])
    assert messages[:4] == [None] * 4  # success may take three evaluations to follow
    assert messages[4] is not None
    assert "since step 200 it has risen from 0.220 to 0.820 a step, success has gone from 60% to 10%" in messages[4]
    assert messages[4].endswith("most reward and no success: 24 (0.84), 23 (0.83), 22 (0.82)")


@pytest.mark.parametrize(
    "history",
    [
        [(0.1, 0.0), (0.2, 0.2), (0.3, 0.4), (0.4, 0.6), (0.5, 0.8)],  # both rise
        [(0.5, 0.5), (0.4, 0.4), (0.3, 0.3), (0.2, 0.2), (0.1, 0.1)],  # both fall
        [(0.1, 1.0), (0.2, 1.0), (0.3, 1.0), (0.4, 1.0), (0.5, 0.98)],  # solved: nothing more to expect
        [(0.1, 0.5), (0.1, 0.4), (0.1, 0.4), (0.1, 0.4), (0.105, 0.4)],  # no more than chance
        [(0.1, 1, -0.9), (0.2, 1, -0.3), (0.4, 1, -0.3), (0.6, 1, -0.31), (0.8, 1, -0.32)],  # a held-out one that stays
    ],
)
def test_nothing_is_said_without_cause(history: list[tuple[float, ...]]) -> None:
    assert warnings(history) == [None] * 5


def test_reward_that_rises_from_the_start_while_nothing_succeeds() -> None:
    messages = warnings([(0.1, 0.0), (0.2, 0.0), (0.3, 0.0), (0.4, 0.0)])
    assert messages[:3] == [None] * 3
    assert messages[3] is not None
    assert "since step 100" in messages[3]


def test_one_episode_is_no_evidence_and_is_counted_with_the_next() -> None:
    """Intervals of one long episode each: two of them are as one of two."""
    history = [(0.1, 0.5), (0.11, 0.5), (0.2, 0.1), (0.21, 0.1), (0.3, 0.1), (0.31, 0.1), (0.8, 0.1), (0.81, 0.1)]
    messages = warnings(history, episodes=1)
    assert messages[:7] == [None] * 7
    assert messages[7] is not None
    assert "since step 200 it has risen from 0.105 to 0.805 a step, success has gone from 50% to 10%" in messages[7]
    assert messages[7].endswith("most reward and no success: 7 (0.81), 6 (0.80)")


def test_reward_that_rises_while_a_held_out_module_falls_is_warned_of_whatever_success_is() -> None:
    watch, messages = RewardWatch(), []
    history = [(0.1, -0.9), (0.2, -0.3), (0.4, -0.4), (0.6, -0.5), (0.8, -0.6)]
    for interval, (reward, apart) in enumerate(history):
        for each in range(5):
            watch.add_episode(5 * interval + each, 10 * reward + each, 10, None, {"apart": 10 * apart + 0.1 * each})
        messages.append(watch.evaluated(100 * (interval + 1), None))
    assert messages[:4] == [None] * 4
    assert messages[4] is not None
    assert (
        "since step 200 it has risen from 0.400 to 1.000 a step, apart, which does not count, has gone" in messages[4]
    )
    assert "from -0.280 to -0.580" in messages[4]
    both = warnings([(0.1, 0.0, 0.0), (0.2, 0.6, 0.9), (0.4, 0.5, 0.7), (0.6, 0.3, 0.5), (0.8, 0.1, 0.3)])[4]
    assert both is not None
    assert "success has gone from 60% to 10%; since step 200 it has risen" in both


def test_an_interval_in_which_a_module_had_yet_to_learn_says_nothing_of_it() -> None:
    watch, messages = RewardWatch(), []
    history = [(0.1, None), (0.2, -0.5), (0.4, -0.3), (0.6, -0.4), (0.8, -0.6), (0.9, -0.7)]
    for interval, (reward, apart) in enumerate(history):
        for each in range(5):
            unknown = apart is None and each < 3  # it learns during the first interval
            held_out = {} if unknown else {"apart": 10 * (apart or 0.0) + 0.1 * each}
            watch.add_episode(5 * interval + each, 10 * reward + each, 10, None, held_out)
        messages.append(watch.evaluated(100 * (interval + 1), None))
    assert messages[:5] == [None] * 5
    assert messages[5] is not None and "since step 300" in messages[5]
