"""A learner that returns a robot to where episodes begin: an agent, its replay buffer, and a learned reward."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Agent,
    Batch,
    CheckpointError,
    ConfigError,
    Critic,
    DataError,
    EnvSpec,
    Observation,
    Reward,
    State,
    Transition,
    generator,
    reading,
    require,
    saved_counts,
)
from ..replay import MixedSampler, ReplayRing

UNLIKE = 0.1
"""Quantile of the rewards of known beginnings, below which a state is not a beginning."""


class ReturnLearner:
    """A :class:`~robo_rl.core.ReturnLearner` composed of the parts that also learn tasks.

    Args:
        agent: an agent with critics.
        reward: a reward with modules, all of which judge single states.
        spec: spec of the environment.
        replay_capacity: number of observations in the replay buffer.
        seed: seed of the run.

    Raises:
        ConfigError: if agent or reward are of an unsuitable kind.
    """

    def __init__(self, agent: Agent, reward: Reward, spec: EnvSpec, replay_capacity: int, seed: int) -> None:
        if reward.scorer is None or reward.scorer.needs_steps:
            raise ConfigError("reset.reward must have modules that judge states: vice, classifier, clip or perceptual")
        if not isinstance(agent, Critic) or not agent.config.learns_online:
            raise ConfigError(
                "reset.agent must have critics and learn from its own steps: rlpd_without_demonstrations, sac or redq"
            )
        chunk = agent.config.action_chunk
        require(chunk == 1, "reset.agent.action_chunk", "1, as it judges and takes single actions", chunk)
        self._agent, self._critic = agent, agent
        self._scorer = reward.scorer
        self._spec = spec
        self._ring = ReplayRing(replay_capacity, spec, reward.scorer.terms, agent.features)
        config, rng = agent.config, generator(seed, "reset", "sampler")
        self._sampler = MixedSampler(
            self._ring, None, 0.0, config.gamma, config.n_step, reward, rng, keys=agent.observed
        )
        self._seed = seed
        self._beginnings: Batch = {}
        self._threshold: tuple[int, float] | None = None
        self._steps = 0

    def fit(self, episodes: Sequence[Batch]) -> None:
        """Learn where episodes of the task begin, from demonstrations that are reversed so that they end there.

        Raises:
            DataError: if there are none.
        """
        if not episodes:
            raise DataError("reset=learned returns to where demonstrations begin: set demonstrations.episodes above 0")
        backwards = [_backwards(episode) for episode in episodes]
        self._scorer.fit(backwards)
        self._beginnings = {key: np.concatenate([each[key][-1:] for each in backwards]) for key in backwards[0]}
        self._agent.fit_normaliser({key: np.concatenate([each[key] for each in backwards]) for key in backwards[0]})

    def act(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action (A,), at first a random one, as the agent is configured."""
        if self._steps < self._agent.config.random_steps:
            rng = generator(self._seed, "reset", "random action", self._steps)
            return rng.uniform(-1, 1, self._spec.action.shape).astype(np.float32)
        return self._agent.act(observation, explore=True)

    def value(self, observation: Observation, action: NDArray[np.float32]) -> float:
        """Return the critics' estimate for ``action`` (A,)."""
        return self._critic.value(observation, action)

    def is_back(self, observation: Observation) -> bool:
        """Return whether the modules' reward for ``observation`` is no lower than for nine in ten known beginnings."""
        version = self._scorer.version
        if self._threshold is None or self._threshold[0] != version:
            self._threshold = version, float(np.quantile(self._judged(self._beginnings), UNLIKE))
        rows = {key: value[:1] for key, value in self._beginnings.items()}
        for key in self._spec.observation:
            rows[f"observation/{key}"] = rows[f"next_observation/{key}"] = observation[key][None]
        return bool(self._judged(rows)[0] >= self._threshold[1])

    def add(self, transition: Transition) -> None:
        """Store a step. It terminates an episode of returning only if it leads to a beginning."""
        back = self.is_back(transition.next_observation)
        ended = transition.terminated or transition.truncated
        self._ring.append([replace(transition, terminated=back, truncated=ended and not back)])
        self._ring.score_held(self._scorer, online=True)

    def learn(self) -> None:
        """Do the updates that one step of the learner pays for, once it has enough steps."""
        self._steps += 1
        config = self._agent.config
        self._scorer.update(self._ring.rows)
        if len(self._ring) >= config.learning_starts:
            self._agent.update(self._sampler.sample(self._agent.update_rows, config.batch_size))

    def state(self) -> State:
        """Return the state for :meth:`load`."""
        parts = {
            "agent": self._agent.state(),
            "replay": self._ring.state(),
            "reward": self._scorer.state(),
            "beginnings": self._beginnings,
            "sampler": self._sampler.state(),
        }
        state = {f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()}
        return state | {"steps": np.array([self._steps], np.int64)}

    def load(self, state: State) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            CheckpointError: if it belongs to other parts.
        """
        parts: dict[str, State] = {}
        for key, value in state.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = value
        for part, load in (
            ("agent", self._agent.load),
            ("replay", self._ring.load),
            ("reward", self._scorer.load),
            ("sampler", self._sampler.load),
        ):
            load(parts[part])
        with reading("the robot's return", CheckpointError, "use another checkpoint"):
            self._beginnings = parts["beginnings"]
            if len({len(rows) for rows in self._beginnings.values()}) != 1:
                raise ValueError("the beginnings of its episodes differ in number")
            if not all(np.isfinite(rows).all() for rows in self._beginnings.values()):
                raise ValueError("the beginnings of its episodes are not finite")
            (self._steps,) = saved_counts(state["steps"], 1)
        self._threshold = None

    def _judged(self, rows: Batch) -> NDArray[np.float32]:
        """Return the total reward (n,) that the modules give the n rows."""
        total: NDArray[np.float32] = np.sum(list(self._scorer.judge(rows).values()), axis=0)
        return total


def _backwards(episode: Batch) -> Batch:
    """Return an episode with its states in reverse order."""
    names = {key: key.removeprefix("next_") if key.startswith("next_") else f"next_{key}" for key in episode}
    swapped = {key: names[key] if "observation/" in key else key for key in episode}
    rows = {swapped[key]: np.ascontiguousarray(value[::-1]) for key, value in episode.items()}
    # An unsolved task where the episode began is no failure of the way back: unknown, -1.
    return rows | {"success": np.full_like(rows["success"], -1)}
