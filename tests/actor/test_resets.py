"""An actor whose episodes begin where the last one ended: stopped anywhere it goes on bit for bit."""

from types import SimpleNamespace

import numpy as np
import pytest

from robo_rl.actor import ActionChoice, Actor
from robo_rl.core import CheckpointError, EnvBackend, Observation, Source, Transition, generator
from robo_rl.reset.config import RecoveryConfig
from robo_rl.reset.recovery import RecoveryReset
from robo_rl.safety import make_safe_backend
from robo_rl.sim import make_backend

PRACTICE = {"terminate_on_success": False, "truncate_on_success": True, "autonomous": True}
STEPS = 160


class Rig:
    """An actor on a simulated car, with a wild driver whose actions follow from the step's number."""

    def __init__(self, backend: EnvBackend | None = None) -> None:
        self.backend = backend or make_safe_backend(make_backend("drive", **PRACTICE))
        self.resets = RecoveryReset(RecoveryConfig(), self.backend.spec, seed=3)
        self.actor = Actor(self.backend, 3, resets=self.resets)
        self.steps = 0

    def drive(self, steps: int) -> list[Transition]:
        transitions = []
        for _ in range(steps):
            transitions.append(self.actor.take_step(self._choose))
            self.resets.note(transitions[-1])
            self.steps += 1
        return transitions

    def _choose(self, observation: Observation) -> ActionChoice:
        action = generator(self.steps).uniform((-1, 0), (1, 1)).astype(np.float32)
        return ActionChoice(action, Source.RANDOM)


@pytest.fixture(scope="module")
def unbroken() -> list[Transition]:
    return Rig().drive(STEPS)


def ends(transitions: list[Transition]) -> list[int]:
    return [number for number, transition in enumerate(transitions, 1) if transition.terminated or transition.truncated]


def test_a_run_that_is_stopped_goes_on_bit_for_bit(unbroken):
    at = ends(unbroken)
    assert len(at) >= 2, "it crashed or got stuck"
    # In the first episode, at an episode's end (before its recovery), just after one, and later.
    for stop in (5, at[0], at[0] + 1, at[1] + 3):
        first = Rig()
        first.drive(stop)
        state, saved = first.actor.state(), first.resets.state()
        second = Rig()
        second.actor.load(state)
        second.resets.load(saved)
        second.steps = stop
        for expected, got in zip(unbroken[stop:], second.drive(STEPS - stop), strict=True):
            assert (got.episode, got.sequence) == (expected.episode, expected.sequence)
            for key, value in expected.observation.items():
                np.testing.assert_array_equal(got.observation[key], value)
                np.testing.assert_array_equal(got.next_observation[key], expected.next_observation[key])
            assert got.rewards == expected.rewards
        assert second.resets.metrics()["practice/manual_resets"] == 0


def test_where_the_world_cannot_be_saved_the_open_episode_counts_as_cut(unbroken):
    class Robot:
        """As a robot: its world is what it is."""

        def __init__(self) -> None:
            self._car = make_backend("drive", **PRACTICE)
            self.spec, self.reset, self.step = self._car.spec, self._car.reset, self._car.step

    robot = Robot()
    rig = Rig(robot)  # type: ignore[arg-type]
    rig.drive(5)
    state = rig.actor.state()
    assert not state["counters"][2]
    assert not any(key.startswith("world/") for key in state)
    again = Rig(robot)  # type: ignore[arg-type]
    again.actor.load(state)
    transition = again.drive(1)[0]
    assert (transition.episode, transition.sequence) == (1, 5)
    # It begins where the robot was.
    np.testing.assert_allclose(transition.observation["state"][6], unbroken[4].next_observation["state"][6])


def test_a_simulators_world_is_not_restored_elsewhere():
    rig = Rig()
    rig.drive(2)
    state = rig.actor.state()
    robot = SimpleNamespace(spec=rig.backend.spec)
    for other, message in ((make_backend("reach"), "another simulator's world"), (robot, "a simulator's world")):
        actor = Actor(other, 3, resets=rig.resets)  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match=f"{message}: resume on that simulator"):
            actor.load(state)
