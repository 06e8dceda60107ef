"""Previous states and executed actions in the observation."""

from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hydra import compose, initialize_config_module
from numpy.typing import NDArray

from robo_rl.actor import ActionChoice, Actor
from robo_rl.app import Components, register_all_configs
from robo_rl.core import (
    HISTORY,
    ConfigError,
    DataError,
    EnvSpec,
    HistoryBackend,
    Observation,
    Source,
    Step,
    WrappedWorld,
)
from robo_rl.evaluation import evaluate
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend

ACTIONS = np.random.default_rng(4).uniform(-0.3, 0.3, (9, 2)).astype(np.float32)
LENGTH, STRIDE = 2, 3


class Halving(WrappedWorld):
    """A backend that executes half of each action, as a safety filter may."""

    def reset(self, seed: int | None = None) -> Step:
        return self.inner.reset(seed)

    def step(self, action: NDArray[np.float32]) -> Step:
        return replace(self.inner.step(action / 2), executed_action=action / 2)


def pushing(length: int = LENGTH, stride: int = STRIDE) -> HistoryBackend:
    return HistoryBackend(Halving(make_backend("push_cube")), length, stride)


def moments(step: Step) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return state, relative to the newest one, and action of each earlier moment, oldest first."""
    rows = step.observation[HISTORY].reshape(LENGTH, -1)
    size = step.observation["state"].size
    return [(row[:size], row[size:]) for row in rows]


def test_start_states_of_evaluations_hold_no_history() -> None:
    backend = pushing()

    class Still:
        def act(self, observation: Observation, *, explore: bool) -> NDArray[np.float32]:
            return np.zeros(2, np.float32)

        def forget_plan(self, *, explore: bool) -> None:
            pass

    (episode,) = evaluate(backend, Still(), 1, 0, max_episode_steps=1).episodes
    assert "joint1_position" in episode.start and not set(episode.start) & set(
        backend.spec.observation[HISTORY].names or ()
    )


def test_history_is_earlier_states_relative_to_the_newest_and_executed_actions() -> None:
    backend = pushing()
    steps = [backend.reset(0), *(backend.step(action) for action in ACTIONS)]
    states = [step.observation["state"] for step in steps]
    for moment, (state, action) in zip((3, 6), moments(steps[9]), strict=True):
        np.testing.assert_array_equal(state, states[moment] - states[9])
        np.testing.assert_array_equal(action, ACTIONS[moment] / 2)
    names = backend.spec.observation[HISTORY].names
    assert names[0] == f"{backend.spec.observation['state'].names[0]}_-6" and names[-1] == "action_y_-3"
    assert len(names) == steps[9].observation[HISTORY].size


def test_first_state_stands_for_moments_before_the_episode() -> None:
    backend = pushing()
    for seed in (0, 1):
        first = backend.reset(seed)
        assert not first.observation[HISTORY].any()
        steps = [backend.step(action) for action in ACTIONS[:4]]
        for state, action in (moments(steps[1])[0], moments(steps[1])[1], moments(steps[3])[0]):
            assert not action.any()
            assert (state != 0).any()
        np.testing.assert_array_equal(moments(steps[3])[1][1], ACTIONS[1] / 2)


def test_interrupted_episode_is_repeated_exactly() -> None:
    def choose(_: object) -> ActionChoice:
        return ActionChoice(ACTIONS[1], Source.POLICY)

    actor, other = Actor(pushing(), seed=1), Actor(pushing(), seed=1)
    for _ in range(5):
        actor.take_step(choose)
    other.load(actor.state())
    expected, found = actor.take_step(choose).next_observation, other.take_step(choose).next_observation
    np.testing.assert_array_equal(found[HISTORY], expected[HISTORY])


def test_data_with_another_history_are_refused(tmp_path: Path) -> None:
    with EpisodeStore.create(tmp_path / "data", pushing().spec, {}) as store:
        store.check_against(pushing().spec)
        for other in (pushing(3), pushing(stride=1)):
            with pytest.raises(DataError, match="history"):
                store.check_against(other.spec)


class Blind(Halving):
    """A backend that observes objects alone."""

    @property
    def spec(self) -> EnvSpec:
        return replace(self.inner.spec, observation={"object": self.inner.spec.observation["object"]})


def test_backend_without_a_state_or_with_a_history_is_refused() -> None:
    with pytest.raises(ConfigError, match="has the key 'history' already"):
        HistoryBackend(pushing(), 1)
    with pytest.raises(ConfigError, match=r"history=1 needs the observation 'state', a vector; .* has object"):
        HistoryBackend(Blind(make_backend("push_cube")), 1)


def test_every_command_and_gymnasium_obey_the_options() -> None:
    register_all_configs()
    words = ["task=push_cube", "task.observation.history=2", "task.observation.history_stride=3", "agent.hidden=[8]"]
    with initialize_config_module("robo_rl.configs", version_base=None):
        config = compose("train", [*words, "run.dir=x"])
    components = Components(config)
    spec, evaluation = components.backend.spec, components.evaluation_backend().spec
    components.close()
    assert spec.observation[HISTORY].shape == (76,) and not spec.differences(evaluation)
    with gymnasium.make("robo_rl/PushCube-v0", observation={"history": 2, "history_stride": 3}) as env:
        assert env.observation_space[HISTORY].shape == (76,)  # type: ignore[index]
        env.reset(seed=0)
        assert env.step(ACTIONS[0])[0][HISTORY].any()
