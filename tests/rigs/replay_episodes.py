"""Made-up episodes for the tests of data sets: every number differs, and the same call gives the same episode."""

import dataclasses
from pathlib import Path

import numpy as np

from robo_rl.core import ArraySpec, EnvSpec, Source, Transition
from robo_rl.replay import EpisodeStore

SPEC = EnvSpec(
    task="test",
    observation={
        "state": ArraySpec((3,), names=("x", "y", "z")),
        "images/front": ArraySpec((24, 24, 3), "uint8"),
    },
    action=ArraySpec((2,), low=-1, high=1),
    action_space="end_effector_delta",
    action_frame="base",
    control_rate=10.0,
    max_episode_steps=50,
    reward_terms=("success", "distance"),
    extra={"translation_scale": 0.01},
)


def make_episode(number: int, steps: int, spec: EnvSpec = SPEC, end: str = "terminated") -> list[Transition]:
    random = np.random.default_rng(number)

    def observe():
        return {
            key: random.integers(0, 256, array.shape, dtype=np.uint8)
            if array.dtype == "uint8"
            else random.standard_normal(array.shape).astype(array.dtype)
            for key, array in spec.observation.items()
        }

    observation, transitions = observe(), []
    for step in range(steps):
        following = observe()
        transitions.append(
            Transition(
                observation=observation,
                proposed_action=random.uniform(-2, 2, spec.action.shape).astype(np.float32),
                executed_action=random.uniform(-1, 1, spec.action.shape).astype(np.float32),
                rewards={name: float(np.float32(random.normal())) for name in spec.reward_terms},
                next_observation=following,
                terminated=step == steps - 1 and end == "terminated",
                truncated=step == steps - 1 and end == "truncated",
                source=Source(int(random.integers(0, 4))),
                actor="robot",
                session=3,
                episode=number,
                sequence=1000 * number + step,
                policy_version=int(random.integers(-1, 5)),
                stamp_ns=10**15 + step,
                success=[None, False, True][int(random.integers(0, 3))],
            )
        )
        observation = following
    return transitions


def steps_of(number: int) -> int:
    """A length for episode ``number``: mostly short, some written in more than one block."""
    return 430 if number % 8 == 5 else 3 + number * 7919 % 60


def assert_same(found: list[Transition], expected: list[Transition]) -> None:
    assert len(found) == len(expected)
    for actual, original in zip(found, expected, strict=True):
        for field in dataclasses.fields(Transition):
            a, b = getattr(actual, field.name), getattr(original, field.name)
            if field.name.endswith("observation"):
                assert a.keys() == b.keys()
                for key in a:
                    np.testing.assert_array_equal(a[key], b[key], strict=True)
            elif isinstance(b, np.ndarray):
                np.testing.assert_array_equal(a, b, strict=True)
            else:
                assert a == b, field.name
                assert type(a) is type(b), field.name


METADATA = {"device": "keyboard", "seed": 4, "task": {"size": [0.02, 0.03]}}


def record(path: Path) -> list[list[Transition]]:
    """Make a data set of four episodes, one longer than two shards of images; return them."""
    episodes = [make_episode(number, steps) for number, steps in enumerate((7, 450, 1, 30))]
    with EpisodeStore.create(path, SPEC, METADATA) as store:
        for episode in episodes:
            store.append_episode(episode)
    return episodes
