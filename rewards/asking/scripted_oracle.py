"""A script that says which of two segments is better, as the task's own terms have it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, ConfigError, EnvSpec, Metrics, State, nearest

from ..parts.module import Floats
from .oracles import Answered


class ScriptedOracle:
    """Prefers the segment that is worth more, and errs at a given rate. It answers at once.

    A segment is worth its sum of a true reward. Or there is a ranking of factors, and the first of them in which the
    segments clearly differ decides (HERON, Bukharin et al. 2023).

    Args:
        term: the backend's term that is summed; None: all.
        ranking: the backend's terms that are factors, the most important first; empty: there is no ranking.
        margin: segments clearly differ in a factor by more than this many of its deviations over what is compared.
        regret: of each term what a segment gains counts, its last value less its first, rather than its sum. That is
            minus the regret (Knox et al. 2022), in the limit of no discount, where the value of a state is taken to be
            that of staying there.
        noise: probability of a wrong answer.
        indifference: no preference where the worth differs by at most this.
        spec: of the environment.
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
        known = spec.reward_terms
        self._terms = tuple(ranking) or (known if term is None else (term,))
        for name in self._terms:
            if name not in known:
                key = "ranking" if ranking else "term"
                raise ConfigError(f"{option}.{key}: this task has no term {name!r}: {nearest(name, known)}")
        self._ranked = bool(ranking)
        self._margin = margin
        self._regret = regret
        self._noise = noise
        self._indifference = indifference
        self._answered: Answered | None = None

    def ask(self, segments: Batch, rng: np.random.Generator) -> None:
        """See :class:`.Oracle`."""
        values = np.stack([segments[f"term/{name}"] for name in self._terms], axis=-1)  # (2 n, length, terms)
        worth = values[:, -1] - values[:, 0] if self._regret else values.sum(1)
        pairs = worth.reshape(-1, 2, len(self._terms))
        differences: Floats = pairs[:, 1] - pairs[:, 0]
        better = ranked(differences, self._margin * worth.std(0)) if self._ranked else differences.sum(-1)
        second, known = noisy_answers(better, self._noise, self._indifference, rng)
        self._answered = Answered(np.flatnonzero(known), second[known].astype(np.float32))

    def collect(self) -> Answered | None:
        """See :class:`.Oracle`."""
        answered, self._answered = self._answered, None
        return answered

    def metrics(self) -> Metrics:
        """Nothing is counted."""
        return {}

    def state(self) -> State:
        """Nothing is remembered."""
        return {}

    def load(self, state: State) -> None:
        """Nothing is remembered."""


def ranked(differences: Floats, margins: Floats) -> Floats:
    """Return for each pair the difference (n,) in the most important factor that exceeds its margin; 0: none does.

    Args:
        differences: (n, factors), the most important first.
        margins: (factors,), 0 or more.
    """
    clear = np.abs(differences) > margins
    decisive = clear.argmax(1)
    found: Floats = np.where(clear.any(1), differences[np.arange(len(differences)), decisive], np.float32(0))
    return found


def noisy_answers(
    difference: Floats, noise: float, indifference: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say which of two segments is better.

    Args:
        difference: (n,) what the second is worth less what the first is.
        noise: probability of a wrong answer.
        indifference: no preference where they differ by at most this.
        rng: for the errors.

    Returns:
        Whether the second is called better (n,) bool, and whether there is an answer (n,) bool.
    """
    wrong = rng.uniform(size=len(difference)) < noise
    return (difference > 0) != wrong, np.abs(difference) > indifference
