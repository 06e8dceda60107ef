"""Demonstrations with the actions of a base policy."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..app import Components
from ..core import EnvSpec, Interruption, Transition, derive_seed
from ..replay import EpisodeStore
from ..residual import BASE_ACTION, BASE_POLICY, BaseActionBackend, BaseActions, residual_scale

EPISODES_AT_ONCE = 50


def with_base_actions(
    path: Path, copy: Path, episodes: int, components: Components, interruption: Interruption
) -> Path:
    """Return the data set at ``path``, or a copy of it with the actions of the run's base policy, if it has one.

    Args:
        path: a data set of the task.
        copy: where the copy is written, if it does not exist yet.
        episodes: number of episodes to copy.
        components: components of the run.
        interruption: checked between episodes.

    Raises:
        DataError: if the data set was recorded for another task, is damaged, or the copy cannot be written.
        SpecError: if the base policy does not return a valid action.
        SystemExit: if the run is interrupted.
    """
    backend = components.evaluation_backend()  # not the backend of training, whose base policy may be within an episode
    if not isinstance(backend, BaseActionBackend):
        return path
    with EpisodeStore.open(path) as source:
        if source.spec.extra.get(BASE_POLICY) == backend.spec.extra[BASE_POLICY]:
            return path  # recorded with this base policy
        if not copy.exists():
            source.check_against(backend.inner.spec)
            _write(source, copy, episodes, backend, interruption)
    return copy


def report_reach(store: EpisodeStore, episodes: int, spec: EnvSpec) -> None:
    """Print which share of the actions in a data set a residual on the base policy of ``spec`` could have chosen."""
    scale = residual_scale(spec)
    near: list[NDArray[np.bool_]] = []
    for number in range(episodes):
        steps = store.arrays(number, (BASE_ACTION,))
        distance = np.abs(steps.executed_action - steps.observation[BASE_ACTION][:-1])
        near.append(distance.max(axis=1) <= scale)
    if near:
        share = np.concatenate(near).mean()
        print(f"{share:.0%} of the demonstrated actions are within {scale:g} of those of the base", flush=True)


def _write(
    source: EpisodeStore, copy: Path, episodes: int, backend: BaseActionBackend, interruption: Interruption
) -> None:
    inner = backend.inner.spec
    spec = replace(backend.spec, reward_terms=source.spec.reward_terms)
    recorded = source.episodes(0, len(source.records[:episodes]), inner.observation.keys())
    seed = 0
    try:
        with EpisodeStore.create(copy, spec, {**source.metadata, "base_actions": True}) as store:
            while group := list(islice(recorded, EPISODES_AT_ONCE)):
                interruption.check("computing the base's actions on demonstrations")
                seeds = [derive_seed(seed + number, "base actions") for number in range(len(group))]
                seed += len(group)
                store.append_episodes([_added(backend.base_actions, *each) for each in zip(group, seeds, strict=True)])
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)  # a resumed run would take an incomplete copy for a complete one
        raise


def _added(base: BaseActions, episode: Sequence[Transition], seed: int) -> list[Transition]:
    """Return the steps of an episode with the base's action in every observation."""
    steps, observation = [], base.begin(episode[0].observation, seed)
    for step in episode:
        following = base.follow(step.executed_action, step.next_observation)
        steps.append(replace(step, observation=observation, next_observation=following))
        observation = following
    return steps
