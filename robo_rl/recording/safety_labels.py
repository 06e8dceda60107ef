"""Safety labels of recorded states: violations of a specification, and distances from demonstrated states."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core import Batch, EnvSpec, ObservationSignals, parse_specification, require
from ..replay import EpisodeStore
from ..safety.feasibility_filter import stacked, state_keys
from ..safety.safe_set import SafeSet

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class DemonstratedConfig:
    """Demonstrations of safe states.

    Attributes:
        paths: folders of data sets, oldest first.
        remember: number of newest episodes without failure that are used; null: all.
        reach: see :class:`~robo_rl.safety.safe_set.SafeSet`.
        still: see :class:`~robo_rl.safety.safe_set.SafeSet`.
    """

    paths: tuple[str, ...]
    remember: int | None
    reach: float
    still: float

    def __post_init__(self) -> None:
        remember = self.remember
        require(remember is None or remember >= 2, "demonstrated.remember", "null, or 2 or more", remember)
        for key in ("reach", "still"):
            require(getattr(self, key) > 0, f"demonstrated.{key}", "above 0", getattr(self, key))


def accuracy(values: Floats, broken: list[Floats]) -> dict[str, float]:
    """Return the accuracy of a feasibility value on the data that it was learned from.

    Args:
        values: values of all states of all episodes, concatenated (n,).
        broken: result of :func:`costs` for each episode.

    Returns:
        ``broken``: fraction of states that violate the specification; ``recognised``: fraction of the states from which
        it was violated then or later that are judged infeasible; ``false_alarms``: the same fraction of the other
        states.
    """
    is_infeasible = values > 0
    is_doomed = np.concatenate([np.maximum.accumulate(cost[::-1])[::-1] > 0 for cost in broken])
    return {
        "broken": float((np.concatenate(broken) > 0).mean()),
        "recognised": float(is_infeasible[is_doomed].mean()),
        "false_alarms": 0.0 if is_doomed.all() else float(is_infeasible[~is_doomed].mean()),
    }


def unlike(demonstrated: DemonstratedConfig, spec: EnvSpec, episodes: list[Batch]) -> tuple[list[Floats], list[Batch]]:
    """Return the distances of states from the safe set, and the demonstrations that define the set.

    The demonstrations are the newest ``demonstrated.remember`` episodes in ``demonstrated.paths`` that did not fail.
    Newer successes of a policy therefore replace the demonstrations of the beginning.

    Returns:
        For each of ``episodes`` the costs of the states after its n steps (n,), see :class:`SafeSet`; and the rows of
        the demonstrations.

    Raises:
        DataError: if a data set is of another environment, or there are too few demonstrations.
    """
    demonstrations: list[Batch] = []
    keys = state_keys(spec)
    for path in demonstrated.paths:
        with EpisodeStore.open(Path(path)) as store:
            store.check_against(spec)
            numbers = [number for number, record in enumerate(store.records) if record.success is not False]
            demonstrations += [store.arrays(number, keys).rows() for number in numbers]
    if demonstrated.remember is not None:
        demonstrations = demonstrations[-demonstrated.remember :]
    safe_set = SafeSet([_states(rows, keys) for rows in demonstrations], demonstrated.reach, demonstrated.still)
    return [safe_set.cost(_states(episode, keys)[1:]) for episode in episodes], demonstrations


def _states(episode: Batch, keys: tuple[str, ...]) -> Floats:
    """Return the L + 1 states (L + 1, S) of an episode of L steps."""
    before, after = (
        stacked({key: episode[f"{when}/{key}"] for key in keys}, keys) for when in ("observation", "next_observation")
    )
    return np.concatenate([before[:1], after])


def costs(keep: str, spec: EnvSpec, episode: Batch) -> Floats:
    """Return the violations of a specification in the states after the n steps of an episode (n,).

    Values above 0 violate the specification. Each state is judged separately, so time bounds in the specification have
    no effect.

    Raises:
        ConfigError: if the specification cannot be parsed, or does not match the observations.
    """
    formula, signals = parse_specification(keep), ObservationSignals(spec)
    after = {key: episode[f"next_observation/{key}"] for key in state_keys(spec)}
    values = {name: signals.values(name, after) for name in formula.check(signals.units)}
    states = ({name: value[n : n + 1] for name, value in values.items()} for n in range(len(episode["action"])))
    return np.array([-formula.robustness(state, 1.0) for state in states], np.float32)
