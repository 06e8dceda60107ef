"""Labels of safety in recordings: which states break a specification, and how far they are from what was shown."""

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
    """What was demonstrated to be safe.

    Attributes:
        paths: folders of data sets, the oldest first.
        remember: so many of their newest successful episodes count; null: all.
        reach: of the safe set; see :class:`~robo_rl.safety.safe_set.SafeSet`.
        still: the same.
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
    """Return how a feasibility value fits the data it was learned from.

    Args:
        values: of all states of all episodes, one after another (n,).
        broken: what :func:`costs` returned for each episode.

    Returns:
        ``broken``: share of states that break the specification; ``recognised``: share that is judged infeasible of the
        states from which it was broken later, and ``false_alarms`` of the others.
    """
    doomed = values > 0
    breaks = np.concatenate([np.maximum.accumulate(each[::-1])[::-1] > 0 for each in broken])
    return {
        "broken": float((np.concatenate(broken) > 0).mean()),
        "recognised": float(doomed[breaks].mean()),
        "false_alarms": 0.0 if breaks.all() else float(doomed[~breaks].mean()),
    }


def unlike(demonstrated: DemonstratedConfig, spec: EnvSpec, episodes: list[Batch]) -> tuple[list[Floats], list[Batch]]:
    """Return how far outside the safe set the states after the steps of ``episodes`` are, and what was demonstrated.

    What was demonstrated is the successful episodes of ``demonstrated.paths``, the newest ``demonstrated.remember`` of
    them: what a policy did well since takes the place of what somebody showed in the beginning.

    Raises:
        ConfigError: if a data set is of another environment.
        DataError: if too little was demonstrated.
    """
    shown: list[Batch] = []
    keys = state_keys(spec)
    for path in demonstrated.paths:
        with EpisodeStore.open(Path(path)) as store:
            store.check_against(spec)
            numbers = [number for number, record in enumerate(store.records) if record.success is not False]
            shown += [store.arrays(number, keys).rows() for number in numbers]
    if demonstrated.remember is not None:
        shown = shown[-demonstrated.remember :]
    safe = SafeSet([_states(each, keys) for each in shown], demonstrated.reach, demonstrated.still)
    return [safe.cost(_states(episode, keys)[1:]) for episode in episodes], shown


def _states(episode: Batch, keys: tuple[str, ...]) -> Floats:
    """Return the L + 1 states (L + 1, S) of an episode of L steps."""
    before, after = (
        stacked({key: episode[f"{when}/{key}"] for key in keys}, keys) for when in ("observation", "next_observation")
    )
    return np.concatenate([before[:1], after])


def costs(keep: str, spec: EnvSpec, episode: Batch) -> Floats:
    """Return by how much the states after the n steps of an episode break a specification (n,); below 0: keep it.

    Each state is judged by itself: times in the specification have no meaning.

    Raises:
        ConfigError: if the specification cannot be read, or does not fit the observations.
    """
    formula, signals = parse_specification(keep), ObservationSignals(spec)
    after = {key: episode[f"next_observation/{key}"] for key in state_keys(spec)}
    values = {name: signals.values(name, after) for name in formula.check(signals.units)}
    each = ({name: value[n : n + 1] for name, value in values.items()} for n in range(len(episode["action"])))
    return np.array([-formula.robustness(state, 1.0) for state in each], np.float32)
