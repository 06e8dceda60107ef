"""Several episodes in one commit: the same data set as one by one; all or none."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from robo_rl.core import ArraySpec, DataError, SpecError, Transition
from robo_rl.replay import EpisodeStore

from ..rigs.replay_episodes import SPEC, assert_same, make_episode

LENGTHS = (7, 1, 450, 30, 3)


def episodes() -> list[list[Transition]]:
    return [make_episode(number, steps) for number, steps in enumerate(LENGTHS)]


def test_a_group_is_stored_as_its_episodes_one_by_one(tmp_path: Path) -> None:
    with (
        EpisodeStore.create(tmp_path / "one by one", SPEC) as single,
        EpisodeStore.create(tmp_path / "g", SPEC) as group,
    ):
        for episode in episodes():
            single.append_episode(episode)
        assert group.append_episodes(episodes()[:1]) == 0
        assert group.append_episodes(episodes()[1:]) == 1
        assert list(group.records) == list(single.records)
        for number, episode in enumerate(episodes()):
            assert_same(group.episode(number), episode)
    with EpisodeStore.open(tmp_path / "g") as again:
        for number, episode in enumerate(episodes()):
            assert_same(again.episode(number), episode)


def changed(**changes: object) -> list[Transition]:
    steps = make_episode(9, 5)
    steps[2] = dataclasses.replace(steps[2], **changes)  # type: ignore[arg-type]
    return steps


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ([], DataError, "an episode without a step cannot be stored"),
        (changed(sequence=77), DataError, "step 77 of episode 9 does not follow step 9001"),
        (changed(executed_action=np.full(2, 2, np.float32)), SpecError, r"executed_action .*\[-1, 1\], got 2.0"),
        (changed(executed_action=np.zeros(2)), SpecError, "executed_action: expected float32 rows"),
        (changed(proposed_action=np.zeros(3, np.float32)), SpecError, "the steps of an episode differ in shape"),
        (
            changed(rewards={"success": np.nan, "distance": 0.0}),
            SpecError,
            r"rewards \(row 6\): expected finite values",
        ),
        (changed(rewards={"success": 1.0}), SpecError, "rewards: expected terms"),
        (changed(observation={}), SpecError, "observation: expected keys"),
    ],
)
def test_one_bad_episode_and_nothing_of_the_group_is_stored(
    tmp_path: Path, bad: list[Transition], error: type[Exception], message: str
) -> None:
    with EpisodeStore.create(tmp_path / "set", SPEC) as store:
        store.append_episode(make_episode(0, 4))
        if bad and not bad[2].observation:
            bad = [bad[2]]
        with pytest.raises(error, match=message):
            store.append_episodes([make_episode(1, 4), bad])
        assert len(store) == 1
        store.append_episode(make_episode(2, 6))
    with EpisodeStore.open(tmp_path / "set") as store:
        assert_same(store.episode(0), make_episode(0, 4))
        assert_same(store.episode(1), make_episode(2, 6))


def test_rows_are_checked_as_single_arrays_are() -> None:
    rng = np.random.default_rng(0)
    spec = ArraySpec((2,), low=-1, high=1)
    for _ in range(200):
        rows = rng.uniform(-1.02, 1.02, (6, 2)).astype(np.float32)
        if rng.random() < 0.3:
            rows[rng.integers(6), rng.integers(2)] = rng.choice([np.nan, np.inf, -np.inf])
        good = True
        for row in rows:
            try:
                spec.check("x", row)
            except SpecError:
                good = False
        if good:
            spec.check_rows("x", rows)
        else:
            with pytest.raises(SpecError, match=r"x \(row \d\): expected"):
                spec.check_rows("x", rows)
    with pytest.raises(SpecError, match=r"x: expected float32 rows of shape \(2,\), got float64 \(2,\)"):
        spec.check_rows("x", np.zeros((3, 2)))
