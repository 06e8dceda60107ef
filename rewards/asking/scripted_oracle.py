"""Scripted oracle that compares segments by the task's own reward terms."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, ConfigError, EnvSpec, Metrics, State, nearest

from ..parts.module import Floats
from .oracles import Answers


class ScriptedOracle:
    """Oracle that prefers the segment of higher value, with errors at a given rate. It answers at once.

    The value of a segment is the sum of a true reward. With a ranking of factors, the first factor in which the
    segments clearly differ decides instead (HERON, Bukharin et al. 2023).

    Args:
        term: the backend's term that is summed; None for all.
        ranking: the backend's terms that are factors, the most important first; empty for no ranking.
        margin: segments clearly differ in a factor by more than this many of its deviations over the compared segments.
        regret: compare the gain of a segment in each term, its last value minus its first, rather than its sum. The
            gain is minus the regret (Knox et al. 2022) in the limit of no discount, if the value of a state is that of
            staying in it.
        noise: probability of a wrong answer.
        indifference: there is no preference if the values differ by at most this.
        spec: spec of the environment.
        option: configuration key of the module, for messages.

    Raises:
        ConfigError: if there is no such term.
    """

    waiting = False
    ready = True

    def __init__(
        self,
        *,
        term: str | None,
        ranking: Sequence[str],
        margin: float,
        regret: bool,
        noise: float,
        indifference: float,
        spec: EnvSpec,
        option: str,
    ) -> None:
        valid_names = spec.reward_terms
        self._terms = tuple(ranking) or (valid_names if term is None else (term,))
        for name in self._terms:
            if name not in valid_names:
                key = "ranking" if ranking else "term"
                raise ConfigError(f"{option}.{key}: this task has no term {name!r}: {nearest(name, valid_names)}")
        self._ranked = bool(ranking)
        self._margin = margin
        self._regret = regret
        self._noise = noise
        self._indifference = indifference
        self._answers: Answers | None = None

    def ask(self, segments: Batch, rng: np.random.Generator) -> None:
        """See :class:`.Oracle`."""
        values = np.stack([segments[f"term/{name}"] for name in self._terms], axis=-1)  # shape (2 n, length, terms)
        segment_values = values[:, -1] - values[:, 0] if self._regret else values.sum(1)
        pairs = segment_values.reshape(-1, 2, len(self._terms))
        differences: Floats = pairs[:, 1] - pairs[:, 0]
        better = ranked(differences, self._margin * segment_values.std(0)) if self._ranked else differences.sum(-1)
        second, has_answer = noisy_answers(better, self._noise, self._indifference, rng)
        self._answers = Answers(np.flatnonzero(has_answer), second[has_answer].astype(np.float32))

    def collect(self) -> Answers | None:
        """See :class:`.Oracle`."""
        answered, self._answers = self._answers, None
        return answered

    def metrics(self) -> Metrics:
        """Return no metrics."""
        return {}

    def state(self) -> State:
        """Return an empty state."""
        return {}

    def load(self, state: State) -> None:
        """Do nothing: the state is empty."""


def ranked(differences: Floats, margins: Floats) -> Floats:
    """Return for each pair the difference (n,) in the most important factor that exceeds its margin; 0 if none does.

    Args:
        differences: (n, factors), the most important first.
        margins: (factors,), 0 or more.
    """
    clear = np.abs(differences) > margins
    decisive = clear.argmax(1)
    result: Floats = np.where(clear.any(1), differences[np.arange(len(differences)), decisive], np.float32(0))
    return result


def noisy_answers(
    difference: Floats, noise: float, indifference: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return answers about which of two segments is better.

    Args:
        difference: (n,), the value of the second segment minus that of the first.
        noise: probability of a wrong answer.
        indifference: there is no preference if the values differ by at most this.
        rng: random generator of the errors.

    Returns:
        Whether the answer prefers the second segment (n,) bool, and whether there is an answer (n,) bool.
    """
    is_error = rng.uniform(size=len(difference)) < noise
    return (difference > 0) != is_error, np.abs(difference) > indifference
