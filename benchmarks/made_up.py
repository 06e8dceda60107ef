"""Made-up environments and transitions, for programs that measure how long something takes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ArraySpec, EnvSpec, Source, Transition

Draw = Callable[[ArraySpec, int, np.random.Generator], NDArray[Any]]
"""Function of an array's spec, the number of the step and a generator that returns the array."""


def spec_of(
    observation: Mapping[str, ArraySpec],
    action: int = 7,
    episode_steps: int = 100,
    reward_terms: Sequence[str] = ("success",),
) -> EnvSpec:
    """Return the spec of an environment with actions (action,)."""
    return EnvSpec(
        task="benchmark",
        observation=dict(observation),
        action=ArraySpec((action,), low=-1, high=1),
        action_space="end_effector_delta",
        action_frame="base",
        control_rate=10.0,
        max_episode_steps=episode_steps,
        reward_terms=tuple(reward_terms),
    )


def random_array(array: ArraySpec, number: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return random bytes for images, and random numbers for all else."""
    if array.dtype == "uint8":
        return rng.integers(0, 256, array.shape, dtype=np.uint8)
    return rng.standard_normal(array.shape, dtype=np.float32)


def transitions_of(
    spec: EnvSpec, count: int, draw: Draw = random_array, *, session: int = 0, rewards: bool = True
) -> list[Transition]:
    """Return transitions in episodes that end at the time limit of ``spec``; rewards are random, or 0 without."""
    rng = np.random.default_rng(0)

    def observe(number: int) -> dict[str, NDArray[Any]]:
        return {key: draw(array, number, rng) for key, array in spec.observation.items()}

    transitions, observation, length = [], observe(0), spec.max_episode_steps or count
    for number in range(count):
        following, is_last = observe(number + 1), number % length == length - 1
        action = rng.uniform(-1, 1, spec.action.shape).astype(np.float32)
        transitions.append(
            Transition(
                observation=observation,
                proposed_action=action,
                executed_action=action,
                rewards={name: float(rng.random()) if rewards else 0.0 for name in spec.reward_terms},
                next_observation=following,
                terminated=False,
                truncated=is_last,
                source=Source.POLICY,
                actor="actor",
                session=session,
                episode=number // length,
                sequence=number,
                policy_version=0,
                stamp_ns=number,
            )
        )
        observation = observe(number) if is_last else following
    return transitions
