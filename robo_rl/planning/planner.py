"""Planning in the simulator: sampled action sequences are acted out in a copy of it, and the best one is followed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    MACHINE,
    Batch,
    ConfigError,
    EnvBackend,
    EnvSpec,
    Observation,
    PersistentWorld,
    Reward,
    Source,
    State,
    Step,
    simulated_state,
)

from .config import PlannerConfig

Floats = NDArray[np.float32]

GAMMA = 0.97
"""Discount per control period."""


class Planner:
    """Scripted solution of a task by predictive sampling (Howell et al. 2022, arXiv 2212.00541).

    For each decision, random sequences around the previous plan are acted out in a copy of the simulator. The sequence
    with the largest discounted reward becomes the plan, and its first action is executed. An episode that ends within
    the horizon counts as if its last reward continued, so an early success is better than a late one.

    Args:
        backend: simulator in which the plan is executed.
        copy: second simulator of the same configuration, in which sequences are acted out.
        reward: reward that the sequences are judged by.
        config: options.
        rng: random generator of the sequences.

    Raises:
        ConfigError: if the task has a machine, whose state is not copied, or if a module of the reward learns or cannot
            judge single transitions.
    """

    def __init__(
        self, backend: EnvBackend, copy: EnvBackend, reward: Reward, config: PlannerConfig, rng: np.random.Generator
    ) -> None:
        self._backend, self._copy, self._reward, self._config, self._rng = backend, copy, reward, config, rng
        if reward.scorer is not None and (reward.scorer.whole_episodes or reward.scorer.learns):
            reason = "needs whole episodes" if reward.scorer.whole_episodes else "learns, and has not learned anything"
            raise ConfigError(
                f"source=planner judges single transitions before any training, but a module of its reward {reason}: "
                "choose another one, for example reward@planner.reward=shaped"
            )
        spec = backend.spec
        if MACHINE in spec.extra:
            raise ConfigError(
                "source=planner acts out sequences from the middle of an episode, but in a copy the machine of "
                "task.machine begins in its first state: leave out task.machine, or choose another source"
            )
        self._actions = spec.action.shape[0]
        periods = np.arange(config.horizon)
        places = np.linspace(0.0, max(config.horizon - 1, 1), config.knots) if config.knots > 1 else np.zeros(1)
        columns = [np.interp(periods, places, row) for row in np.eye(config.knots)]
        self._interpolation = np.stack(columns, axis=1)  # (horizon, knots)
        self._shift = np.stack([np.interp(places + 1.0, places, row) for row in np.eye(config.knots)], axis=1)
        self.reset()

    def reset(self) -> None:
        """Forget the plan of the last episode."""
        self._plan = np.zeros((self._config.knots, self._actions))

    def act(self, observation: Observation) -> Floats:
        """Return the first action (A,) of the best sequence from the current state of the simulator.

        Raises:
            ConfigError: if the state cannot be copied.
        """
        world = self._world()
        for iteration in range(self._config.iterations):
            deviation = self._config.deviation * 0.5**iteration
            noise = deviation * self._rng.standard_normal((self._config.samples, *self._plan.shape))
            noise[0] = 0.0
            knots = np.clip(self._plan + noise, -1.0, 1.0)
            sequences = (self._interpolation @ knots).astype(np.float32)
            episodes = [self._act_out(world, sequence) for sequence in sequences]
            self._plan = knots[int(np.argmax(self._returns(episodes, sequences)))]
        action: Floats = self._plan[0].astype(np.float32)
        self._plan = self._shift @ self._plan
        return action

    def _world(self) -> State:
        """Return the state of the simulator.

        A copy begins an episode in it. Some tasks change their objects then: a board becomes dirty again, or a cube has
        another goal.

        Raises:
            ConfigError: if the state cannot be copied, or the task moves its objects in the copy.
        """
        task = self._backend.spec.task
        world = self._backend.world() if isinstance(self._backend, PersistentWorld) else None
        if world is None or not isinstance(self._copy, PersistentWorld):
            raise ConfigError(
                f"the state of task {task!r} cannot be copied, as planning requires: choose one of robo-rl's simulated "
                "tasks, without domain randomisation, delays and relative poses (task.randomisation, "
                "task.arm.dynamics.delay, task.observation.relative), or another source of demonstrations"
            )
        self._copy.restore(world)
        if not np.allclose(_places(self._backend), _places(self._copy), rtol=0, atol=1e-6):
            raise ConfigError(
                f"task {task!r} moves its objects when an episode begins, so it cannot be planned from the middle of "
                "one: choose another task, or another source of demonstrations"
            )
        return world

    def _act_out(self, world: State, sequence: Floats) -> list[Step]:
        """Return the steps of an episode that begins in ``world``, the first one included."""
        assert isinstance(self._copy, PersistentWorld)
        steps = [self._copy.restore(world)]
        for action in sequence:
            steps.append(self._copy.step(action))
            if steps[-1].terminated or steps[-1].truncated:
                break
        return steps

    def _returns(self, episodes: Sequence[list[Step]], sequences: Floats) -> Floats:
        """Return the discounted reward (n,) of episodes with the actions ``sequences`` (n, horizon, A)."""
        names, values = self._terms(episodes, sequences)
        rewards = self._reward.combine(names, values, GAMMA)
        returns, begin = np.zeros(len(episodes), np.float32), 0
        for number, episode in enumerate(episodes):
            row = rewards[begin : (begin := begin + len(episode) - 1)]
            padded = np.pad(row, (0, self._config.horizon - len(row)), mode="edge")
            returns[number] = padded @ GAMMA ** np.arange(self._config.horizon)
        return returns

    def _terms(self, episodes: Sequence[list[Step]], sequences: Floats) -> tuple[list[str], Floats]:
        """Return the names (T) and values (n, T) of the terms of all steps, one episode after another."""
        spec, names = self._backend.spec, list(self._backend.spec.reward_terms)
        rows = [[step.rewards[name] for name in names] for episode in episodes for step in episode[1:]]
        values = np.array(rows, np.float32).reshape(-1, len(names))
        scorer = self._reward.scorer
        if scorer is None:
            return names, values
        batch = _batch(spec, episodes, sequences) | {f"term/{name}": values[:, i] for i, name in enumerate(names)}
        scores = scorer.judge(batch)
        return [*names, *scores], np.column_stack([values, *scores.values()])


def _places(backend: EnvBackend) -> NDArray[np.float64]:
    """Return where the robot and all objects of a simulator are (n,); empty if it is not MuJoCo."""
    if (state := simulated_state(backend)) is None:
        return np.zeros(0)
    _, data = state
    places: NDArray[np.float64] = np.concatenate([data.qpos, data.mocap_pos.ravel(), data.mocap_quat.ravel()])
    return places


def _batch(spec: EnvSpec, episodes: Sequence[list[Step]], sequences: Floats) -> Batch:
    """Return the rows of all steps, one episode after another, without terms."""
    before = [step for episode in episodes for step in episode[:-1]]
    after = [step for episode in episodes for step in episode[1:]]
    actions = [sequence[: len(episode) - 1] for episode, sequence in zip(episodes, sequences, strict=True)]
    batch: Batch = {"action": np.concatenate(actions)}
    for key in spec.observation:
        batch[f"observation/{key}"] = np.stack([step.observation[key] for step in before])
        batch[f"next_observation/{key}"] = np.stack([step.observation[key] for step in after])
    return batch | {
        "terminated": np.array([step.terminated for step in after], np.bool_),
        "truncated": np.array([step.truncated for step in after], np.bool_),
        "source": np.full(len(after), Source.SCRIPT, np.uint8),
        "success": np.array([-1 if step.success is None else step.success for step in after], np.int8),
    }
