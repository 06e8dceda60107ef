"""Protocols of rewards."""

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .reward import RewardWeights
from .specs import EnvSpec
from .types import Batch, Comparisons, Metrics, State


class Experience(Protocol):
    """Transitions of the running training, for a learned reward. The rows of the replay buffer are one implementation.

    Rows have the keys described in :class:`RewardModule`.
    """

    def __len__(self) -> int:
        """Return the number of transitions."""
        ...

    def sample_rows(self, n: int, rng: np.random.Generator) -> Batch:
        """Draw ``n`` transitions uniformly with replacement: arrays (n, ...)."""
        ...

    def sample_segments(
        self, n: int, length: int, rng: np.random.Generator, *, newest: int | None = None
    ) -> Batch | None:
        """Draw ``n`` segments of ``length`` transitions: arrays (n, length, ...). None if there are none.

        ``newest``: segments begin within this number of the newest transitions; None for anywhere.
        """
        ...


class RewardModule(Protocol):
    """A computed reward: one term beside those that the backend reports.

    Batches of rows for a module have ``observation/<key>``, ``next_observation/<key>`` and ``action`` as in
    :data:`~robo_rl.core.types.Batch`, and ``terminated`` and ``truncated`` (n,) bool, ``source`` (n,) uint8
    (:class:`Source`), ``success`` (n,) int8 (1, 0, or -1: unknown) and ``term/<name>`` (n,) float32 for each reward
    term of the backend. Which of these a module may read depends on the experiment: a module that replaces the task's
    reward does not read ``success`` and ``term/...``.
    """

    @property
    def learned(self) -> bool:
        """Whether the module changes after :meth:`fit`: rows are then scored before each use, else on insertion."""
        ...

    @property
    def whole_episodes(self) -> bool:
        """Whether the module is called with all rows of one episode in order, rather than with rows in any order.

        A module that judges states may prefer whole episodes because that is faster, but accepts other rows too.
        """
        ...

    @property
    def judges_state(self) -> bool:
        """Whether the module reads only ``next_observation/...``, so that it can be a potential for shaping."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether the module waits for an answer of a person or a model."""
        ...

    @property
    def version(self) -> int:
        """A number that grows with every change of a learned module."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Prepare from demonstrations, each an episode in order, before anything is scored. There may be none.

        Return metrics to log, often none.

        Raises:
            DataError: if the module cannot use these demonstrations.
        """
        ...

    def observe(self, batch: Batch) -> None:
        """Receive rows of the running training that are about to be scored for the first time."""
        ...

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        """Return rewards (n,), finite."""
        ...

    def update(self, experience: Experience) -> Metrics:
        """Learn; called after every environment step. Return metrics to log, often none."""
        ...

    def discount(self) -> float | None:
        """Return the discount that the agent must use from now on; None for the agent's own."""
        ...

    def comparisons(self) -> Comparisons | None:
        """Return the comparisons of demonstrations that :meth:`fit` collected, or None."""
        ...

    def ready(self, first: Batch) -> bool:
        """Return at once whether an episode can be scored without waiting for an answer; if not, request the answer.

        Args:
            first: the first row or rows of the episode.
        """
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None:
        """Restore ``state``, also without a call of :meth:`fit`.

        Raises:
            CheckpointError: if it belongs to another module.
        """
        ...


class TermScorer(Protocol):
    """Computes the reward terms of rows; see :class:`RewardModule` for their keys."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms that scoring adds to the terms of the backend."""
        ...

    @property
    def whole_episodes(self) -> bool:
        """Whether a module needs whole episodes."""
        ...

    @property
    def needs_steps(self) -> tuple[str, ...]:
        """Names of the modules that cannot judge a state alone: they need the preceding action, or the episode."""
        ...

    @property
    def version(self) -> int:
        """A number that grows with every change of a learned module with a weight."""
        ...

    def ready(self, first: Batch) -> bool:
        """Return whether the episode with these first rows can be scored without waiting for an answer."""
        ...

    def score(self, batch: Batch, *, online: bool) -> dict[str, NDArray[np.float32]]:
        """Return all ``terms`` (n,) for rows that are inserted: the steps of one episode, in order.

        Args:
            batch: rows.
            online: whether the rows belong to the running training, rather than to demonstrations.
        """
        ...

    def rescore(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Return the terms (n,) of learned modules with a weight, for any rows."""
        ...

    def judge(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Return the rewards (n,) of modules that judge single transitions, for any rows, including invented ones."""
        ...


class Scorer(TermScorer, Protocol):
    """The reward modules of a run, which compute terms; some of them learn."""

    @property
    def modules(self) -> Collection[str]:
        """Names of the reward modules, without those that compute the costs of constraints."""
        ...

    @property
    def held_out(self) -> tuple[str, ...]:
        """Names of the modules without weight, which judge the policy that the other modules train.

        A learned module is listed only once it has learned.
        """
        ...

    @property
    def learns(self) -> bool:
        """Whether any module is learned."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether any module waits for an answer of a person or a model."""
        ...

    @property
    def discount(self) -> float | None:
        """The discount that a module requests, or None."""
        ...

    @property
    def comparisons(self) -> Comparisons | None:
        """The comparisons of demonstrations that one of the modules collected, or None."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Prepare all modules from demonstrations; return metrics to log, often none."""
        ...

    def update(self, experience: Experience) -> Metrics:
        """Update the learned modules; called after every environment step."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class Reward(Protocol):
    """The computation of a transition's reward from its stored terms, such as :class:`RewardWeights`."""

    @property
    def scorer(self) -> Scorer | None:
        """Computes the terms that the backend does not report; None if there are none."""
        ...

    @property
    def task(self) -> RewardWeights:
        """The reward that evaluations report, computed only from the backend's terms."""
        ...

    def combine(self, terms: Sequence[str], values: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
        """Return the rewards (...,) of steps with ``values`` (..., T) of the T named ``terms``.

        Args:
            terms: names of the stored terms.
            values: values of the terms for each step.
            gamma: discount per step, for shaping by potentials.

        Raises:
            ConfigError: if a required term is not among ``terms``.
        """
        ...


class RewardConfig(Protocol):
    """The object that the configuration group ``reward`` makes."""

    def make(self, spec: EnvSpec, seed: int) -> Reward:
        """Return the reward for an environment of ``spec``.

        Raises:
            ConfigError: if it does not match the environment.
        """
        ...
