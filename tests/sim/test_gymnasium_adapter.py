"""Backends as Gymnasium environments: spaces, rewards, seeding, vectorisation."""

import functools
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, ConfigError, EnvSpec, Observation, ScriptedExpert, Step
from robo_rl.sim.gymnasium_adapter import BackendEnv
from robo_rl.sim.gymnasium_config import make_gymnasium_backend

LIMIT = 4


class CounterBackend:
    """The state counts the steps beside the seed's number; success at +1 after the third step, time limit at 4."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng()
        self._count = 0
        self._start = 0.0
        self.closed = False

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            task="counter",
            observation={
                "state": ArraySpec((2,), low=0.0, high=1000.0),
                "object": ArraySpec((1,)),
                "images/front": ArraySpec((6, 8, 3), "uint8"),
            },
            action=ArraySpec((2,), low=-1.0, high=1.0),
            action_space="end_effector_delta",
            action_frame="base",
            control_rate=10.0,
            max_episode_steps=LIMIT,
            reward_terms=("success", "progress"),
        )

    def _step(self, success: bool) -> Step:
        observation: Observation = {
            "state": np.array([self._count, self._start], np.float32),
            "object": np.array([-self._count], np.float32),
            "images/front": np.full((6, 8, 3), self._count, np.uint8),
        }
        rewards = {"success": float(success), "progress": 0.25 * self._count}
        truncated = self._count >= LIMIT and not success
        return Step(observation, rewards, success, truncated, 0, success)

    def reset(self, seed: int | None = None) -> Step:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._count, self._start = 0, float(self._rng.integers(1000))
        return self._step(False)

    def step(self, action: NDArray[np.float32]) -> Step:
        self.spec.action.check("action", action)
        self._count += 1
        return self._step(self._count >= 3 and bool(action[0] > 0.99))

    def render(self) -> NDArray[np.uint8]:
        return np.full((4, 4, 3), self._count, np.uint8)

    def expert(self, seed: int) -> ScriptedExpert:
        raise ConfigError("none")

    def stop(self, reason: str) -> None: ...

    def close(self) -> None:
        self.closed = True


STAY = np.zeros(2, np.float32)
SOLVE = np.ones(2, np.float32)


def make_counter() -> BackendEnv:
    return BackendEnv(CounterBackend())


def test_gymnasium_check_env_passes_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*Box observation space .* value is -?infinity")
        warnings.filterwarnings("ignore", message=".*environment not having a spec")  # not made by gymnasium.make
        check_env(BackendEnv(CounterBackend(), render_mode="rgb_array"), skip_render_check=False)


def test_spaces_follow_the_spec() -> None:
    env = make_counter()
    space = env.observation_space
    assert set(space.keys()) == {"state", "object", "images"}
    assert (space["state"].low == 0).all() and (space["state"].high == 1000).all()
    assert space["images"]["front"] == gymnasium.spaces.Box(0, 255, (6, 8, 3), np.uint8)
    assert env.action_space == gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    assert env.metadata["render_fps"] == 10


def test_termination_and_truncation_stay_apart() -> None:
    env = make_counter()
    env.reset(seed=0)
    ends = [env.step(STAY)[2:4] for _ in range(LIMIT)]
    assert ends == [(False, False)] * 3 + [(False, True)]
    env.reset(seed=0)
    ends = [env.step(SOLVE)[2:4] for _ in range(3)]
    assert ends == [(False, False)] * 2 + [(True, False)]


def test_reward_is_the_weighted_sum() -> None:
    sparse, shaped = make_counter(), BackendEnv(CounterBackend(), reward={"success": 2.0, "progress": 0.5})
    for env, expected in ((sparse, [0, 0, 1]), (shaped, [0.125, 0.25, 2.375])):
        env.reset(seed=0)
        steps = [env.step(SOLVE) for _ in range(3)]
        assert [step[1] for step in steps] == expected
        assert steps[-1][4] == {"reward_terms": {"success": 1.0, "progress": 0.75}, "is_success": True}
    with pytest.raises(ConfigError, match="no term 'sucess': did you mean 'success'"):
        BackendEnv(CounterBackend(), reward={"sucess": 1.0})


def test_unseeded_episodes_follow_from_the_last_seed() -> None:
    def starts(env: BackendEnv) -> list[float]:
        first = env.reset(seed=7)[0]["state"][1]
        return [float(first)] + [float(env.reset()[0]["state"][1]) for _ in range(3)]

    one, other = starts(make_counter()), starts(make_counter())
    assert one == other
    assert len(set(one)) == 4


def test_render_mode() -> None:
    env = BackendEnv(CounterBackend(), render_mode="rgb_array")
    env.reset(seed=0)
    env.step(STAY)
    picture = env.render()
    assert picture is not None and (picture == 1).all()
    assert make_counter().render() is None
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        BackendEnv(CounterBackend(), render_mode="human")


def test_close_closes_the_backend() -> None:
    env = make_counter()
    env.close()
    assert env.backend.closed


def test_our_tasks_are_made_with_fields_of_parts() -> None:
    env = gymnasium.make("robo_rl/Reach-v0", observation={"object": False}, controller={"translation_scale": 0.01})
    config = env.unwrapped.backend.config  # type: ignore[attr-defined]
    assert "object" not in env.observation_space.keys()  # noqa: SIM118
    assert config.controller.translation_scale == 0.01
    assert config.controller.action_axes == "xyz", "the task's other defaults stay"
    env.close()
    with pytest.raises(ConfigError, match=r"task 'reach' has no field 'observation\.camera'; did you mean 'cameras'"):
        gymnasium.make("robo_rl/Reach-v0", observation={"camera": ("front",)})


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("vector", ["sync", "async"])
def test_vector_environments_give_the_true_final_observation(mode: AutoresetMode, vector: str) -> None:
    """Environment 0 stays and is truncated after 4 steps; environment 1 solves its task after 3."""
    envs: Any = (
        SyncVectorEnv([make_counter, make_counter], autoreset_mode=mode)
        if vector == "sync"
        else AsyncVectorEnv([make_counter, make_counter], context="spawn", autoreset_mode=mode)
    )
    try:
        envs.reset(seed=[1, 2])
        actions = np.stack([STAY, SOLVE])
        for _ in range(2):
            envs.step(actions)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        assert rewards.tolist() == [0, 1]
        assert (terminated.tolist(), truncated.tolist()) == ([False, True], [False, False])
        if mode == AutoresetMode.SAME_STEP:
            assert infos["final_obs"][1]["state"][0] == 3
            assert (infos["final_obs"][1]["images"]["front"] == 3).all()
            assert observations["state"][1, 0] == 0
        else:
            assert observations["state"][:, 0].tolist() == [3, 3]
            assert infos["is_success"].tolist() == [False, True]
        if mode == AutoresetMode.DISABLED:
            observations, _ = envs.reset(options={"reset_mask": terminated | truncated})
            assert observations["state"][:, 0].tolist() == [3, 0]
        observations, rewards, terminated, truncated, _ = envs.step(np.stack([STAY, STAY]))
        assert truncated.tolist() == [True, False]
        expected = [0 if mode == AutoresetMode.SAME_STEP else 4, 0 if mode == AutoresetMode.NEXT_STEP else 1]
        assert observations["state"][:, 0].tolist() == expected
    finally:
        envs.close()


@pytest.mark.filterwarnings("ignore:.*Box observation space")
def test_a_gymnasium_environment_survives_the_way_there_and_back() -> None:
    """FetchReach as a backend as an environment: the same rewards and states as FetchReach itself."""
    make = functools.partial(make_gymnasium_backend, env_id="FetchReach-v4", max_episode_steps=5)
    env = BackendEnv(make(), reward={"reward": 1.0})
    original = gymnasium.make("FetchReach-v4", max_episode_steps=5)
    check_env(BackendEnv(make()), skip_render_check=True)
    actual, _ = env.reset(seed=11)
    original_observation, _ = original.reset(seed=11)
    rng = np.random.default_rng(0)
    truncated = False
    while not truncated:
        action = rng.uniform(-1, 1, 4).astype(np.float32)
        actual, reward, terminated, truncated, info = env.step(action)
        original_observation, expected, *_, their_truncated, their_info = original.step(action)
        assert (reward, truncated, terminated) == (expected, their_truncated, False)
        assert info["is_success"] == bool(their_info["is_success"])
        parts = [
            original_observation["achieved_goal"],
            original_observation["desired_goal"],
            original_observation["observation"],
        ]
        difference = original_observation["desired_goal"] - original_observation["achieved_goal"]
        np.testing.assert_array_equal(actual["state"], np.concatenate([*parts, difference]).astype(np.float32))
    env.close()
    original.close()
