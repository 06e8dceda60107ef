"""How far learner and actors may be ahead of each other."""

import itertools
import random
import sys

import pytest

from robo_rl.training.pace import AHEAD, Ratios, allowed_steps, may_update

MOST = [0.003, 0.1, 0.2, 0.25, 0.29, 1 / 3, 0.5, 0.7, 1.0, 1.5, 3.0, 20.0]


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
@pytest.mark.parametrize("actors", [0, 1, 3])
def test_neither_waits_for_ever_and_both_keep_the_bounds(most: float, share: float, actors: int) -> None:
    """Whoever may goes on, by chance, from ten steps before learning begins."""
    ratios, rng = Ratios(share * most, most), random.Random(0)
    steps, updates, wanted = -10, 0, max(200, int(3 / most))
    while steps < wanted or may_update(updates, steps, ratios):
        room = allowed_steps(updates, steps, ratios, actors)
        may_step = room > 0 and steps < wanted
        assert may_step or may_update(updates, steps, ratios), f"held at step {steps}, updates {updates}"
        if may_step and (rng.random() < 0.5 or not may_update(updates, steps, ratios)):
            steps += 1
        else:
            updates += 1
        assert updates <= most * max(steps, 0)
        if share:
            ahead = max(AHEAD * max(actors, 1), 1 / most + 1)
            assert steps <= updates / ratios.least + 1 + ahead


@pytest.mark.parametrize(("updates", "steps", "actors"), itertools.product([0, 5], [-3, 0, 9], [0, 1, 2]))
def test_each_actor_may_be_four_steps_ahead(updates: int, steps: int, actors: int) -> None:
    assert allowed_steps(updates, steps, Ratios(1, 1), actors) == updates + 4 * max(actors, 1) - steps
    assert allowed_steps(updates, steps, Ratios(0, 1), actors) == sys.maxsize, "they are never held"
