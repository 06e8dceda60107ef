"""Observations that arrive late: by how much, what is not delayed, and how episodes repeat."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from hydra import compose, initialize_config_module
from numpy.typing import NDArray
from omegaconf import OmegaConf

from robo_rl.actor import ActionChoice, Actor
from robo_rl.app import Components, build_backend, register_all_configs
from robo_rl.core import (
    ConfigError,
    DelayedBackend,
    EnvBackend,
    Observation,
    PersistentWorld,
    RelativeBackend,
    Source,
    Step,
)
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig
from robo_rl.training.experience import make_hindsight

from ..rigs.composition import composed_config

DELAY = {"state": 0.15, "object": 0.1}  # at 10 Hz: two control periods and one
ACTIONS = np.random.default_rng(5).uniform(-1, 1, (8, 4)).astype(np.float32)


def backend_of(*words: str, simulated: bool = False, robot: str | None = None) -> EnvBackend:
    """Return the backend of a run of ``push_cube``."""
    config = composed_config("train", "task=push_cube", *words)
    if robot is not None:
        OmegaConf.set_struct(config, False)
        config.robot = {"_target_": robot}
    return build_backend(config, simulated)


def simulation_as_robot(simulation: EnvBackend) -> EnvBackend:
    """Return a stand-in for a robot."""
    return simulation


def rolled_out(backend: EnvBackend, seed: int = 3) -> list[Step]:
    size = backend.spec.action.shape[0]
    return [backend.reset(seed), *(backend.step(action[:size]) for action in ACTIONS)]


def rows(steps: list[Step], key: str) -> NDArray[Any]:
    return np.stack([step.observation[key] for step in steps])


def late(values: NDArray[Any], periods: int) -> NDArray[Any]:
    """Return rows as they were ``periods`` before; the first one at the start."""
    return values[np.maximum(np.arange(len(values)) - periods, 0)]


def test_each_key_arrives_late_by_its_own_delay_and_all_else_at_once() -> None:
    observed = ObservationConfig(cameras=("front", "wrist"), width=16, height=16)
    backends = [make_backend("reach", observation=observed) for _ in range(2)]
    now = rolled_out(backends[0])
    then = rolled_out(DelayedBackend(backends[1], DELAY | {"images/front": 0.3}))
    for key, periods in {"state": 2, "object": 1, "images/front": 3, "images/wrist": 0}.items():
        values = rows(now, key)
        assert np.abs(np.diff(values.astype(float), axis=0)).max() > 0
        np.testing.assert_array_equal(rows(then, key), late(values, periods))
    for a, b in zip(now, then, strict=True):
        assert (a.rewards, a.success, a.truncated, a.stamp_ns) == (b.rewards, b.success, b.truncated, b.stamp_ns)
    for backend in backends:
        backend.close()


def test_safety_filters_see_what_is_measured_now() -> None:
    """With late observations they would change other actions: the joints are driven to their limits of speed."""
    steps = [
        rolled_out(backend_of("task.controller.translation_scale=0.2", *words))
        for words in ((), ("task.observation.delay={state: 0.3}",))
    ]
    changed = [[step.executed_action for step in each[1:]] for each in steps]
    assert any(action is not None for action in changed[0])
    for now, then in zip(*changed, strict=True):
        np.testing.assert_array_equal(now, then)
    assert np.abs(rows(steps[0], "state") - rows(steps[1], "state")).max() > 0.01


def test_delays_are_drawn_for_each_episode_and_repeat_from_its_seed() -> None:
    backend = DelayedBackend(make_backend("reach"), DELAY, 0.3)
    drawn = []
    for seed in (*range(20), *range(20)):
        backend.reset(seed)
        drawn.append(backend.periods)
    assert drawn[:20] == drawn[20:]
    assert {each["state"] for each in drawn} == {2, 3, 4, 5} and {each["object"] for each in drawn} == {2, 3, 4}
    assert any(each["state"] - each["object"] != 1 for each in drawn)
    backend.close()


def test_an_interrupted_episode_is_repeated_exactly() -> None:
    def choose(observation: Observation) -> ActionChoice:
        return ActionChoice(observation["object"][:3].clip(-1, 1), Source.POLICY)

    actors = [Actor(DelayedBackend(make_backend("reach"), DELAY, 0.3), seed=1) for _ in range(2)]
    for _ in range(5):
        actors[0].take_step(choose)
    actors[1].load(actors[0].state())
    expected, found = (actor.take_step(choose).next_observation for actor in actors)
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)


def test_a_world_is_restored_and_nothing_of_the_last_episode_arrives_in_it() -> None:
    backend = DelayedBackend(make_backend("reach"), DELAY)
    assert isinstance(backend, PersistentWorld)
    rolled_out(backend)
    world = backend.world()
    first = backend.reset()
    assert world is not None
    restored = DelayedBackend(make_backend("reach"), DELAY).restore(world)
    for key, value in first.observation.items():
        np.testing.assert_array_equal(restored.observation[key], value)
    np.testing.assert_array_equal(first.observation["state"], backend.inner.reset().observation["state"])
    assert DelayedBackend(make_backend("reach"), DELAY, 0.1).world() is None  # the draws are not stored


@pytest.mark.parametrize(("words", "periods"), [((), 2), (("task.control_rate=20",), 3)])
def test_a_run_has_the_delays_of_its_task_in_simulation_alone(words: tuple[str, ...], periods: int) -> None:
    words = (*words, "safety=none", "task.observation.delay={state: 0.15}")
    plain = rolled_out(backend_of(*words, robot=f"{__name__}.simulation_as_robot"))
    for backend in (backend_of(*words), backend_of(*words, simulated=True, robot=f"{__name__}.simulation_as_robot")):
        np.testing.assert_array_equal(rows(rolled_out(backend), "state"), late(rows(plain, "state"), periods))


def test_relative_observations_are_delayed_as_they_are() -> None:
    words = ("task.observation.relative=true", "task.controller.action_frame=end_effector", "safety=none")
    now, then = (backend_of(*words, *more) for more in ((), ("task.observation.delay={state: 0.1}",)))
    assert isinstance(then, DelayedBackend) and isinstance(then.inner, RelativeBackend)
    np.testing.assert_array_equal(rows(rolled_out(then), "state"), late(rows(rolled_out(now), "state"), 1))


def test_gymnasium_environments_have_them_too() -> None:
    environments = [gymnasium.make("robo_rl/Reach-v0", observation={"delay": delay}) for delay in ({}, {"object": 0.2})]
    objects = []
    for environment in environments:
        observations = [environment.reset(seed=3)[0]] + [environment.step(action[:3])[0] for action in ACTIONS]
        objects.append(np.stack([each["object"] for each in observations]))
    np.testing.assert_array_equal(objects[1], late(objects[0], 2))


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ConfigError, match=r"task\.observation\.delay: 'images/front' is not observed: .*object"):
        backend_of("task.observation.delay={images/front: 0.1}")
    with pytest.raises(ConfigError, match=r"observation.delay.state must be in \[0, 10\], got -0.1"):
        ObservationConfig(delay={"state": -0.1})
    with pytest.raises(ConfigError, match=r"observation.delay_range must be given only where observation.delay names"):
        ObservationConfig(delay_range=0.1)
    register_all_configs()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        words = ["task=push_cube", "agent=redq", "demonstrations.episodes=0", "task.observation.delay={object: 0.1}"]
        components = Components(compose("train", words))
    ring: Any = type("Ring", (), {"spec": components.backend.spec})
    with pytest.raises(ConfigError, match=r"without task\.observation\.delay"):
        make_hindsight(components, ring, 4, 0)
    components.close()
