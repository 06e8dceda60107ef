"""Computed reward terms in the replay ring: held back until scored, scored again when out of date, saved."""

import numpy as np
import pytest
from safetensors.numpy import load, save

from robo_rl.core import CheckpointError, SpecError, generator
from robo_rl.replay import ReplayRing

from ..rigs.replay_stream import SPEC, Stream, episode, fill


class Judge:
    """Scores with the number of the next observation plus its version; notes what it was asked for."""

    terms = ("judged",)
    learns = True
    discount = None

    def __init__(self, whole_episodes=False):
        self.whole_episodes = whole_episodes
        self.version = 0
        self.calls = []

    def ready(self, first):
        return True

    def score(self, batch, *, online):
        self.calls.append(batch["next_observation/state"][:, 0].tolist())
        return {"judged": batch["next_observation/state"][:, 0] + 1000 * self.version}

    def rescore(self, batch):
        return self.score(batch, online=False)


class Sum:
    """The computed term alone is the reward."""

    def combine(self, terms, values, gamma):
        return values[..., terms.index("judged")]


def ring_of(script, capacity=50) -> ReplayRing:
    ring = ReplayRing(capacity, SPEC, ("judged",))
    fill(ring, script)
    return ring


def judged(ring: ReplayRing) -> dict[int, float]:
    """The stored score of each transition that can be sampled, by the number of its next observation."""
    rows = ring.rows.everything(Sum())
    numbers = rows["next_observation/state"][:, 0].astype(int).tolist()
    return dict(zip(numbers, rows["reward"].tolist(), strict=True))


def test_nothing_is_sampled_before_it_is_scored():
    ring = ring_of([(0, "step")] * 3)
    assert len(ring) == 0
    judge = Judge()
    assert len(ring.score_held(judge, online=True)) == 3
    assert judge.calls == [[2, 3, 4]]
    assert judged(ring) == {2: 2, 3: 3, 4: 4}
    assert len(ring.score_held(judge, online=True)) == 0


def test_an_episode_waits_for_an_answer_and_others_do_not():
    """Nobody is asked again of what was scored; demonstrations do not wait to be scored later."""
    judge = Judge(whole_episodes=True)
    answered = set()
    judge.ready = lambda first: len(first["action"]) == 1 and int(first["observation/state"][0, 0]) in answered
    stream, ring = Stream(), ReplayRing(50, SPEC, ("judged",))
    for event in ("step", "terminate", "step", "terminate"):
        ring.append([stream.next(0, event)])
    assert len(ring.score_held(judge, online=True)) == 0
    first, second = sorted(judge_first(ring))
    answered.add(second)
    assert len(ring.score_held(judge, online=True)) == 2
    assert len(ring) == 2
    answered.add(first)
    assert len(ring.score_held(judge, online=True)) == 2
    assert judge.calls[0][0] > judge.calls[1][0]
    ring.append([stream.next(0, "step"), stream.next(0, "terminate")])
    assert len(ring.score_held(judge, online=False)) == 2


def judge_first(ring: ReplayRing) -> list[int]:
    """The number of the first observation of each episode that is held back."""
    starts = np.array([segment[0] for segment in ring.computed.held_segments()], dtype=np.intp)
    return ring._columns.rows(starts)["observation/state"][:, 0].astype(int).tolist()


def test_whole_episodes_wait_for_their_end_and_come_in_order():
    judge = Judge(whole_episodes=True)
    stream, ring = Stream(), ReplayRing(50, SPEC, ("judged",))
    # Two robots take turns; the first one's episode ends.
    for actor, event in [(0, "step"), (1, "step"), (0, "step"), (1, "step"), (0, "terminate")]:
        ring.append([stream.next(actor, event)])
    ring.score_held(judge, online=True)
    assert judge.calls == [[2, 5, 7]]
    assert set(judged(ring)) == {2, 5, 7}
    ring.append([stream.next(1, "truncate")])
    ring.score_held(judge, online=True)
    assert judge.calls[1:] == [[4, 6, 8]]
    assert len(ring) == 6


def test_a_gap_ends_what_is_scored_together():
    ring = ring_of([(0, "step"), (0, "step"), (0, "lost"), (0, "terminate")])
    judge = Judge(whole_episodes=True)
    ring.score_held(judge, online=True)
    assert [len(call) for call in judge.calls] == [2, 2]


def test_an_episode_longer_than_the_ring_loses_its_beginning_alone():
    ring = ring_of([(0, "step")] * 9 + [(0, "terminate")], capacity=6)
    ring.score_held(Judge(whole_episodes=True), online=True)
    assert set(judged(ring)) == {7, 8, 9, 10, 11}


def test_terms_are_computed_again_only_where_they_are_out_of_date():
    ring, judge = ring_of(episode(8, "terminate")), Judge()
    ring.score_held(judge, online=True)
    slots = np.array([[2, 2, 5]])
    judge.calls.clear()
    ring.computed.rescore(slots, judge)
    assert judge.calls == []
    judge.version = 1
    ring.computed.rescore(slots, judge)
    ring.computed.rescore(slots, judge)
    assert judge.calls == [[4, 7]]
    ring.computed.rescore(slots, judge, n_step=3)
    assert judge.calls[1:] == [[5, 8], [6, 9]]
    assert judged(ring) == {2: 2, 3: 3, 4: 1004, 5: 1005, 6: 1006, 7: 1007, 8: 1008, 9: 1009}
    batch = ring.rows.gather(slots, gamma=0.5, n_step=3, reward=Sum())
    np.testing.assert_allclose(batch["reward"][0], [1004 + 0.5 * 1005 + 0.25 * 1006] * 2 + [1007 + 504 + 252.25])


def test_state_keeps_what_is_held_back_and_what_is_out_of_date():
    script = [(0, "terminate"), (0, "step"), (0, "step")]
    ring, judge = ring_of(script), Judge(whole_episodes=True)
    ring.score_held(judge, online=True)
    judge.version = 2
    ring.computed.rescore(np.array([0]), judge)
    other = ReplayRing(50, SPEC, ("judged",))
    other.load(load(save(ring.state())))
    for each in (ring, other):
        assert len(each) == 1
        judge.calls.clear()
        each.computed.rescore(np.array([0]), judge)
        assert judge.calls == []
        stream = Stream()
        for step in script:
            stream.next(*step)
        each.append([stream.next(0, "terminate")])
        each.score_held(judge, online=True)
    assert judged(ring) == judged(other)
    assert len(ring) == 4


def test_a_pass_brings_all_terms_up_to_date_a_few_at_a_time():
    """Against scores of the version: over version changes midway, rows that were sampled, arrivals, and the seam."""
    ring, judge, stream = ReplayRing(20, SPEC, ("judged",)), Judge(), Stream()
    rng = generator(0, "relabel")

    def insert(steps):
        ring.append([stream.next(0, rng.choice(["step", "terminate"])) for _ in range(steps)])
        ring.score_held(judge, online=True)

    insert(15)
    assert ring.computed.relabel(judge, 4) == 0
    for version, calls in ((1, 2), (2, 1), (3, 3), (4, None)):
        judge.version, judge.calls = version, []
        ring.computed.rescore(ring.rows.sample_indices(2, rng), judge)
        stale = len(ring) - len(judge.calls[0])
        for number in range(calls if calls else 100):
            insert(3)
            assert ring.computed.relabel(judge, 4) <= 4
            if number == 0:  # a checkpoint in the middle of a pass
                loaded = ReplayRing(20, SPEC, ("judged",))
                loaded.load(load(save(ring.state())))
                ring = loaded
        assert sum(len(call) == 4 for call in judge.calls) <= -(-stale // 4)
    assert judged(ring) == {number: number + 4000 for number in judged(ring)}
    judge.calls.clear()
    assert ring.computed.relabel(judge, 4) == 0
    assert judge.calls == []


def test_a_saved_pass_goes_on_with_the_same_rows():
    ring, judge = ring_of(episode(12, "terminate")), Judge()
    ring.score_held(judge, online=True)
    judge.version = 1
    ring.computed.rescore(np.array([1, 7]), judge)
    judge.calls.clear()
    assert ring.computed.relabel(judge, 3) == 3
    loaded = ReplayRing(50, SPEC, ("judged",))
    loaded.load(load(save(ring.state())))
    for each in (ring, loaded):
        while each.computed.relabel(judge, 3):
            pass
    assert judge.calls == [[2, 4, 5], *2 * [[6, 7, 8], [10, 11, 12], [13]]]


def test_terms_alone_are_taken_over_with_the_same_transitions():
    ring, judge = ring_of(episode(5, "terminate")), Judge()
    judge.version = 3
    ring.score_held(judge, online=False)
    again = ring_of(episode(5, "terminate"))
    again.computed.load(load(save(ring.computed.state())))
    assert judged(again) == judged(ring)
    rng, twin = generator(0, "draw"), generator(0, "draw")
    np.testing.assert_array_equal(ring.rows.sample_indices(9, rng), again.rows.sample_indices(9, twin))
    with pytest.raises(CheckpointError, match="reward terms of the demonstrations: expected 'terms' of shape"):
        ring_of(episode(6, "terminate")).computed.load(ring.computed.state())


def test_segments_are_unbroken_and_uniform():
    ring = ring_of(episode(4, "terminate") + episode(2, "truncate") + episode(3, "terminate"))
    ring.score_held(Judge(), online=True)
    batch = ring.rows.sample_segments(4000, 3, generator(0, "segments"))
    state, following = batch["observation/state"], batch["next_observation/state"]
    assert state.shape == (4000, 3, 2)
    np.testing.assert_array_equal(state[:, 1:], following[:, :-1])
    firsts, counts = np.unique(state[:, 0, 0], return_counts=True)
    np.testing.assert_array_equal(firsts, [1, 2, 9])
    assert counts.min() > 1200
    assert batch["term/distance"].shape == batch["source"].shape == (4000, 3)
    assert ring.rows.sample_segments(5, 5, generator(0, "segments")) is None


def test_segments_may_begin_in_the_newest_transitions_alone():
    stream, ring, begins = Stream(), ReplayRing(8, SPEC, ("judged",)), []
    for event in [event for _, event in episode(3, "terminate") + episode(4, "truncate") + episode(9, "terminate")]:
        transition = stream.next(0, event)
        ring.append([transition])
        ring.score_held(Judge(), online=True)
        begins.append(transition.observation["state"][0])
        for newest in (1, 3):
            drawn = ring.rows.sample_segments(100, 1, generator(0, "segments"), newest=newest)
            assert set(drawn["observation/state"][:, 0, 0]) == set(begins[-newest:])
    drawn = ring.rows.sample_segments(50, 2, generator(0, "segments"), newest=2)
    assert set(drawn["observation/state"][:, 0, 0]) == {begins[-2]}
    assert ring.rows.sample_segments(5, 2, generator(0, "segments"), newest=1) is None


def test_scores_must_be_finite():
    ring, judge = ring_of(episode(2, "terminate")), Judge()
    judge.score = lambda batch, online: {"judged": np.array([1, np.nan], np.float32)}
    with pytest.raises(SpecError, match="reward term 'judged': expected 2 finite values"):
        ring.score_held(judge, online=True)
