"""The planner: what it does in a world of its own, how it judges sequences, and what it refuses."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.core import MACHINE, ArraySpec, ConfigError, EnvSpec, RewardWeights, State, Step
from robo_rl.planning import Planner, PlannerConfig

from ..rigs.specs import toy_spec

SPEC = replace(toy_spec({"state": ArraySpec((1,))}, 1), reward_terms=("near",))


class Line:
    """A point on a line, which actions move by up to 0.1; the episode ends at 1.

    Attributes:
        at: the position.
        is_copyable: whether its state can be copied.
    """

    spec: EnvSpec = SPEC

    def __init__(self) -> None:
        self.at, self.is_copyable = 0.0, True

    def world(self) -> State | None:
        return {"at": np.array([self.at])} if self.is_copyable else None

    def restore(self, world: State) -> Step:
        self.at = float(world["at"][0])
        return self._step()

    def step(self, action: np.ndarray) -> Step:
        self.at += 0.1 * float(action[0])
        return self._step()

    def _step(self) -> Step:
        is_there = self.at >= 1.0
        observation = {"state": np.array([self.at], np.float32)}
        return Step(observation, {"near": self.at}, is_there, False, 0, is_there)


class Simulator(Line):
    """A line with the state of a simulator, whose object is elsewhere when an episode begins."""

    model = None

    def __init__(self) -> None:
        super().__init__()
        self.data = SimpleNamespace(qpos=np.zeros(1), mocap_pos=np.zeros((1, 3)), mocap_quat=np.zeros((1, 4)))
        self.moves = False

    def restore(self, world: State) -> Step:
        self.data.mocap_pos[0, 0] += self.moves
        return super().restore(world)


class Modules:
    """A reward of one module, which likes small positions."""

    scorer: Any

    def __init__(self, *, whole_episodes: bool = False, learns: bool = False) -> None:
        self.batches: list[dict[str, np.ndarray]] = []
        self.scorer = SimpleNamespace(whole_episodes=whole_episodes, learns=learns, judge=self._judge)

    def _judge(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.batches.append(batch)
        return {"low": -batch["next_observation/state"][:, 0]}

    def combine(self, terms: Any, values: np.ndarray, gamma: float) -> np.ndarray:
        assert list(terms) == ["near", "low"] and values.shape[1] == 2
        return values[:, 1]


def planner(backend: Any, reward: Any = None, copy: Any = None, **options: Any) -> Planner:
    reward = reward or RewardWeights({"near": 1.0})
    return Planner(backend, copy or Line(), reward, PlannerConfig(**options), np.random.default_rng(0))


def test_it_follows_the_reward_and_leaves_the_simulator_alone() -> None:
    backend = Line()
    expert, steps = planner(backend), 0
    while backend.at < 1.0:
        before = backend.at
        action = expert.act({"state": np.array([backend.at], np.float32)})
        assert backend.at == before and action.dtype == np.float32 and action.shape == (1,) and abs(action[0]) <= 1
        backend.step(action)
        steps += 1
    assert 10 <= steps <= 14  # 10 at full speed


def test_modules_judge_the_rows_of_all_sequences_at_once() -> None:
    backend, reward = Line(), Modules()
    expert = planner(backend, reward, samples=5, iterations=1, horizon=4)
    for _ in range(5):
        backend.step(expert.act({"state": np.array([backend.at], np.float32)}))
    assert backend.at < -0.3 and len(reward.batches) == 5
    batch = reward.batches[0]
    assert {key: len(value) for key, value in batch.items()} == dict.fromkeys(batch, 20)
    assert {"observation/state", "next_observation/state", "action", "terminated", "success", "term/near"} <= set(batch)
    np.testing.assert_allclose(
        batch["next_observation/state"][:, 0], batch["observation/state"][:, 0] + 0.1 * batch["action"][:, 0], atol=1e-6
    )


def test_an_episode_that_ends_early_counts_as_if_it_stayed_there() -> None:
    backend = Line()
    backend.at = 0.95  # one step from the end, whose reward 1 is received for the rest of the horizon
    expert = planner(backend, horizon=6, samples=50)
    assert expert.act({"state": np.array([backend.at], np.float32)})[0] > 0.5


@pytest.mark.parametrize(("horizon", "knots"), [(1, 1), (1, 3), (5, 1), (3, 9)])
def test_any_horizon_and_number_of_knots_will_do(horizon: int, knots: int) -> None:
    backend = Line()
    expert = planner(backend, horizon=horizon, knots=knots, samples=20)
    for _ in range(6):
        backend.step(expert.act({"state": np.array([backend.at], np.float32)}))
    assert backend.at > 0.3


def test_equal_seeds_give_equal_plans() -> None:
    observation = {"state": np.zeros(1, np.float32)}
    first, second = ([planner(Line()).act(observation) for _ in range(1)] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_what_cannot_be_planned_is_refused() -> None:
    backend = Line()
    backend.is_copyable = False
    with pytest.raises(ConfigError, match=r"cannot be copied, as planning requires: .*without domain randomisation"):
        planner(backend).act({"state": np.zeros(1, np.float32)})
    with pytest.raises(ConfigError, match="a module of its reward needs whole episodes"):
        planner(Line(), Modules(whole_episodes=True))
    with pytest.raises(ConfigError, match="a module of its reward learns, and has not learned"):
        planner(Line(), Modules(learns=True))
    with pytest.raises(ConfigError, match=r"leave out task\.machine"):
        backend.spec = replace(SPEC, extra={MACHINE: "abc"})
        planner(backend)


def test_objects_that_change_when_an_episode_begins_are_noticed() -> None:
    copy = Simulator()
    expert = planner(Simulator(), copy=copy)
    expert.act({"state": np.zeros(1, np.float32)})
    copy.moves = True
    with pytest.raises(ConfigError, match="moves its objects when an episode begins"):
        expert.act({"state": np.zeros(1, np.float32)})
