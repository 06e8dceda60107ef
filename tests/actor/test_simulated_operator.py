"""A simulated operator who watches the progress: when they take over, how they act, and that a resumed one goes on."""

from collections.abc import Callable

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor, InterventionConfig, SimulatedOperator
from robo_rl.core import CheckpointError, ConfigError, Observation, Source, Transition
from robo_rl.sim import make_backend

P, S = Source.POLICY, Source.SCRIPT
CONFIG = InterventionConfig(criterion="operator", patience=0.5, retreat=0.1, hold=6)


class Supervised:
    """An arm that reaches for a goal, whose policy moves by ``factor`` of what the expert wants."""

    def __init__(self, seed: int = 0) -> None:
        self._backend = make_backend("reach", terminate_on_success=False)
        self._expert = self._backend.expert(1)
        self.operator = SimulatedOperator(CONFIG, self._backend.expert(0), self._backend.spec, seed)
        self.actor = Actor(self._backend, seed)
        self.actor.begin_episode()
        self.step = 0

    def take(self, factor: Callable[[int], float], steps: int) -> list[Transition]:
        def choose(observation: Observation) -> ActionChoice:
            action = factor(self.step) * self._expert.act(observation)
            return self.operator(observation, ActionChoice(action.astype(np.float32), P), self.step)

        taken = []
        for _ in range(steps):
            taken.append(self.actor.take_step(choose))
            self.operator.note(taken[-1])
            self.step += 1
        return taken


def test_a_policy_that_makes_progress_is_left_alone() -> None:
    assert {step.source for step in Supervised().take(lambda _: 0.3, 8)} == {P}


def test_an_operator_takes_over_without_progress_corrects_and_gives_back() -> None:
    steps = Supervised().take(lambda _: 0.0, 40)
    sources = [step.source for step in steps]
    first, near = sources.index(S), [step.rewards["near"] for step in steps]
    assert 4 <= first <= 7  # half a second at 10 Hz, after the first steps
    given_back = first + sources[first:].index(P)
    assert 3 <= given_back - first <= 9
    assert near[given_back - 1] > near[first - 1] + 0.1
    assert np.abs(steps[first].executed_action).max() > 0  # the reaction time has passed
    assert S in sources[given_back:]  # the policy stops again


def test_moving_away_is_noticed_before_the_patience_ends() -> None:
    steps = Supervised().take(lambda step: 1.0 if step < 3 else -1.0, 7)
    assert [step.source for step in steps].index(S) <= 5


def test_the_end_of_an_episode_ends_an_intervention() -> None:
    supervised = Supervised()
    while supervised.take(lambda _: 0.0, 1)[0].source is not S:
        pass
    supervised.operator.end_episode()
    supervised.actor.begin_episode()
    assert supervised.take(lambda _: 0.0, 1)[0].source is P


def test_a_resumed_operator_goes_on_exactly() -> None:
    one, other = Supervised(seed=3), Supervised(seed=3)
    while one.take(lambda _: 0.0, 1)[0].source is not S:
        pass
    other.actor.load(one.actor.state())
    other.operator.load(one.operator.state())
    other.step = one.step
    expected, found = one.take(lambda _: 0.0, 12), other.take(lambda _: 0.0, 12)
    assert [step.source for step in found] == [step.source for step in expected]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.executed_action, b.executed_action)
    with pytest.raises(CheckpointError, match="without an operator"):
        one.operator.load({"remaining": np.zeros(1, np.int64)})


def test_a_task_without_progress_is_refused() -> None:
    drive = make_backend("drive")
    with pytest.raises(ConfigError, match="progress of an arm by reward terms besides success: task 'drive'"):
        SimulatedOperator(CONFIG, drive.expert(0), drive.spec, 0)
