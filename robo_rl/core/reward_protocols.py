"""The interfaces of rewards."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .reward import RewardWeights
from .specs import EnvSpec
from .types import Batch, Comparisons, Metrics, State


class Experience(Protocol):
    """What a learned reward may look at: the transitions of the running training. The rows of a replay ring are one.

    Rows have the keys that :class:`RewardModule` says.
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
        """Draw ``n`` unbroken stretches of ``length`` transitions: arrays (n, length, ...). None: there are none.

        ``newest``: they begin in so many of the newest transitions; None: anywhere.
        """
        ...


class RewardModule(Protocol):
    """A computed reward: one term beside those that the backend reports.

    Batches of rows for a module have ``observation/<key>``, ``next_observation/<key>`` and ``action`` as in
    :data:`~robo_rl.core.types.Batch`, and ``terminated`` and ``truncated`` (n,) bool, ``source`` (n,) uint8
    (:class:`Source`), ``success`` (n,) int8 (1, 0, or -1: unknown) and ``term/<name>`` (n,) float32 for each reward
    term of the backend. What a module may read of this is a matter of the experiment: one that replaces the task's
    reward does not look at ``success`` and ``term/...``.
    """

    @property
    def learned(self) -> bool:
        """Whether it changes after :meth:`fit`: rows are then scored again before use, else once, on insertion."""
        ...

    @property
    def whole_episodes(self) -> bool:
        """Whether it is called with all rows of one episode, in order, rather than with rows in any order.

        One that judges states may want that because it is faster, and can do with others too.
        """
        ...

    @property
    def judges_state(self) -> bool:
        """Whether it reads ``next_observation/...`` alone, so that it can be a potential for shaping."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether it asked somebody whose answer has yet to arrive."""
        ...

    @property
    def version(self) -> int:
        """Number that rises with every change of a learned module."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Prepare from demonstrations, each an episode in order; before anything is scored. There may be none.

        Return what there is to log, often nothing.

        Raises:
            DataError: if the module cannot do with these.
        """
        ...

    def observe(self, batch: Batch) -> None:
        """Take note of rows of the running training that are about to be scored for the first time."""
        ...

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        """Return rewards (n,), finite."""
        ...

    def update(self, experience: Experience) -> Metrics:
        """Learn; called after every environment step. Return what there is to log, often nothing."""
        ...

    def discount(self) -> float | None:
        """Return the discount that the agent shall use from now on, or None: its own."""
        ...

    def comparisons(self) -> Comparisons | None:
        """Return the comparisons of demonstrations that :meth:`fit` asked for; None: there are none."""
        ...

    def ready(self, first: Batch) -> bool:
        """Return, at once, whether an episode can be scored without waiting for an answer; if not, ask for it.

        Args:
            first: the first row or rows of the episode.
        """
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None:
        """Go on from ``state``, also without :meth:`fit`.

        Raises:
            CheckpointError: if it is of another module.
        """
        ...


class TermScorer(Protocol):
    """Computes the reward terms of rows; see :class:`RewardModule` for their keys."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms that scoring adds to those of the backend."""
        ...

    @property
    def whole_episodes(self) -> bool:
        """Whether a module needs whole episodes."""
        ...

    @property
    def needs_steps(self) -> tuple[str, ...]:
        """Names of the modules that cannot judge a state alone: they need the action before it, or its episode."""
        ...

    @property
    def version(self) -> int:
        """Number that rises with every change of a learned module that counts."""
        ...

    def ready(self, first: Batch) -> bool:
        """Return whether the episode of these first rows can be scored without waiting for somebody's answer."""
        ...

    def score(self, batch: Batch, *, online: bool) -> dict[str, NDArray[np.float32]]:
        """Return all of ``terms`` (n,) for rows that are inserted: the steps of one episode, in order.

        Args:
            batch: rows.
            online: whether they are of the running training, rather than demonstrations.
        """
        ...

    def rescore(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Return the terms (n,) of learned modules that count for any rows."""
        ...

    def judge(self, batch: Batch) -> dict[str, NDArray[np.float32]]:
        """Return the rewards (n,) of modules that judge single transitions, for any rows, also made up ones."""
        ...


class Scorer(TermScorer, Protocol):
    """The reward modules of a run: they compute terms, and some of them learn."""

    @property
    def held_out(self) -> tuple[str, ...]:
        """Names of the modules that do not count: what the others make of the policy is judged by them.

        What is learned is not among them before it has learned.
        """
        ...

    @property
    def learns(self) -> bool:
        """Whether a module is learned."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether a module asked somebody whose answer has yet to arrive."""
        ...

    @property
    def discount(self) -> float | None:
        """The discount that a module asks for, or None."""
        ...

    @property
    def comparisons(self) -> Comparisons | None:
        """The comparisons of demonstrations that one of the modules asked for; None: there are none."""
        ...

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Prepare all modules from demonstrations; return what there is to log, often nothing."""
        ...

    def update(self, experience: Experience) -> Metrics:
        """Let the learned modules learn; called after every environment step."""
        ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


class Reward(Protocol):
    """How the reward of a transition follows from its stored terms. :class:`RewardWeights` is one."""

    @property
    def scorer(self) -> Scorer | None:
        """What computes the terms that the backend does not report; None if there are none."""
        ...

    @property
    def task(self) -> RewardWeights:
        """The reward that evaluations report, of the backend's terms alone."""
        ...

    def combine(self, terms: Sequence[str], values: NDArray[np.float32], gamma: float) -> NDArray[np.float32]:
        """Return the rewards (...,) of steps with ``values`` (..., T) of the T named ``terms``.

        Args:
            terms: names of the stored terms.
            values: of each step.
            gamma: discount per step, for shaping by potentials.

        Raises:
            ConfigError: if a term that it needs is not among ``terms``.
        """
        ...


class RewardConfig(Protocol):
    """What the configuration group ``reward`` makes."""

    def make(self, spec: EnvSpec, seed: int) -> Reward:
        """Return the reward for an environment of ``spec``.

        Raises:
            ConfigError: if it does not fit the environment.
        """
        ...
