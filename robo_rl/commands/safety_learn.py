"""robo-rl safety learn: a feasibility value from a data set, for safety.feasibility.model."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console

from ..core import Batch, ConfigError, DataError, EnvSpec, ObservationSignals, parse_specification, require
from ..replay import EpisodeStore
from ..safety.feasibility import FeasibilityConfig, FeasibilityModel
from ..safety.feasibility_filter import save_model, stacked, state_keys
from .recording import typed

Floats = NDArray[np.float32]


def run(config: DictConfig) -> int:
    """Learn and save as configs/safety_learn.yaml says, and print how the value fits the data; return 0."""
    learning = typed(FeasibilityConfig, config, "learning")
    keep, output = str(config.keep), Path(config.output)
    if output.exists():
        raise ConfigError(f"output: {output} is there already; give another folder, or remove it")
    require(config.threads is None or config.threads >= 1, "threads", "null or 1 or more", config.threads)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with EpisodeStore.open(Path(config.path)) as store:
        spec = store.spec
        episodes = [store.arrays(number, state_keys(spec)).rows() for number in range(len(store.records))]
    if not episodes:
        raise DataError(f"{config.path} holds no episodes")
    broken = [costs(keep, spec, episode) for episode in episodes]
    h = np.concatenate(broken)
    if not 0 < (h > 0).mean() < 1:
        always = "always" if (h > 0).all() else "never"
        raise DataError(f"{config.path} {always} breaks {keep!r}: it takes states of both kinds to learn from")
    keys = state_keys(spec)
    states, next_states = (
        np.concatenate([stacked({key: episode[f"{when}/{key}"] for key in keys}, keys) for episode in episodes])
        for when in ("observation", "next_observation")
    )
    actions, ended = (np.concatenate([episode[key] for episode in episodes]) for key in ("action", "terminated"))
    model = FeasibilityModel(states.shape[1], actions.shape[1], learning.hidden, learning.seed)
    model.fit(states, actions, next_states, h, ended, learning)
    shares = accuracy(model.value(states), broken)
    facts = {"keep": keep, "transitions": len(h), **shares}
    save_model(output, model, spec, learning.hidden, facts)
    say = Console(highlight=False, soft_wrap=True).print
    say(f"{len(h):,} steps of {len(episodes)} episodes, {100 * shares['broken']:.1f} % break {keep!r}")
    say(f"Of the states from which it was broken later {100 * shares['recognised']:.0f} % are judged so")
    say(f"Of those from which it never was {100 * shares['false_alarms']:.0f} % are judged so too")
    say(f"Use it: safety.feasibility.model={output}")
    return 0


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
