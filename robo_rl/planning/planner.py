"""Planning in the simulator: sampled action sequences are acted out in a copy of it, and the best one is followed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import (
    Batch,
    ConfigError,
    EnvBackend,
    EnvSpec,
    Observation,
    PersistentWorld,
    Reward,
    Source,
    Step,
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
        ConfigError: if the state of the simulator cannot be copied, or a module of the reward cannot judge single
            transitions.
    """

    def __init__(
        self, backend: EnvBackend, copy: EnvBackend, reward: Reward, config: PlannerConfig, rng: np.random.Generator
    ) -> None:
        self._backend, self._copy, self._reward, self._config, self._rng = backend, copy, reward, config, rng
        if reward.scorer is not None and reward.scorer.whole_episodes:
            raise ConfigError(
                "source=planner judges single transitions, but a module of the reward needs whole episodes: choose "
                "another reward, for example reward=shaped"
            )
        spec = backend.spec
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
        world = self._backend.world() if isinstance(self._backend, PersistentWorld) else None
        if world is None or not isinstance(self._copy, PersistentWorld):
            raise ConfigError(
                f"the state of task {self._backend.spec.task!r} cannot be copied, as planning requires: choose one of "
                "robo-rl's simulated tasks, without domain randomisation and delays (task.randomisation, "
                "task.arm.dynamics.delay), or another source of demonstrations"
            )
        for iteration in range(self._config.iterations):
            deviation = self._config.deviation * 0.5**iteration
            noise = deviation * self._rng.standard_normal((self._config.samples, *self._plan.shape))
            noise[0] = 0.0
            knots = np.clip(self._plan + noise, -1.0, 1.0)
            sequences = (self._interpolation @ knots).astype(np.float32)
            episodes = [self._act_out(self._copy.restore(world), sequence) for sequence in sequences]
            self._plan = knots[int(np.argmax(self._returns(episodes, sequences)))]
        action: Floats = self._plan[0].astype(np.float32)
        self._plan = self._shift @ self._plan
        return action

    def _act_out(self, first: Step, sequence: Floats) -> list[Step]:
        """Return the steps of an episode that begins with ``first``, which is the first of them."""
        steps = [first]
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
