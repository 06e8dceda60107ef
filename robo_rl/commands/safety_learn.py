"""robo-rl safety learn: a feasibility value from a data set, for safety.feasibility.model."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..command_line.destination import new_output
from ..core import ConfigError, DataError, require, typed
from ..recording.safety_labels import DemonstratedConfig, accuracy, costs, unlike
from ..replay import EpisodeStore
from ..safety.feasibility import FeasibilityConfig, FeasibilityModel
from ..safety.feasibility_filter import save_model, stacked, state_keys
from ..telemetry import Console

Floats = NDArray[np.float32]


def run(config: DictConfig) -> int:
    """Learn and save as configured in configs/safety_learn.yaml, and print the accuracy on the data; return 0."""
    learning = typed(FeasibilityConfig, config, "learning")
    output = new_output("output", str(config.output), "folder")
    require(config.threads is None or config.threads >= 1, "threads", "null or 1 or more", config.threads)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    demonstrated = typed(DemonstratedConfig, config, "demonstrated")
    if (config.keep is None) == (not demonstrated.paths):
        raise ConfigError("set either keep, a specification, or demonstrated.paths, demonstrations of safe states")
    with EpisodeStore.open(Path(str(config.path))) as store:
        spec = store.spec
        episodes = [store.arrays(number, state_keys(spec)).rows() for number in range(len(store.records))]
    if not episodes:
        raise DataError(f"{config.path} holds no episodes")
    if config.keep is None:
        keep = "to stay near what was demonstrated"
        broken, demonstrations = unlike(demonstrated, spec, episodes)
        episodes += demonstrations
        broken += [np.full(len(episode["action"]), -1, np.float32) for episode in demonstrations]
    else:
        keep = str(config.keep)
        broken = [costs(keep, spec, episode) for episode in episodes]
    h = np.concatenate(broken)
    if not 0 < (h > 0).mean() < 1:
        frequency = "always" if (h > 0).all() else "never"
        raise DataError(f"{config.path} {frequency} breaks {keep!r}: learning needs states of both kinds")
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
    print_line = Console(highlight=False, soft_wrap=True).print
    print_line(f"{len(h):,} steps of {len(episodes)} episodes, {100 * shares['broken']:.1f} % break {keep!r}")
    print_line(f"Of the states from which it was broken later, {100 * shares['recognised']:.0f} % are recognised")
    print_line(f"Of the states from which it was never broken, {100 * shares['false_alarms']:.0f} % are false alarms")
    print_line(f"Use it: safety.feasibility.model={output}")
    return 0
