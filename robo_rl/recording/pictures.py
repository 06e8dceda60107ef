"""Pictures of simulated tasks with captions whose truth follows from the state of the simulation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, EnvBackend, Observation, derive_seed, generator
from .scripts import ExpertChooser

NOISES = (0.1, 1.0)
"""Range of the standard deviation of the noise on the expert's actions, from nearly perfect to mostly noise."""


@runtime_checkable
class Captioned(Protocol):
    """Backend that describes its state in sentences."""

    def captions(self) -> Mapping[str, bool]:
        """Return the sentences, which are always the same, and whether each is true in the current state."""
        ...


@dataclass(frozen=True)
class Pictures:
    """Pictures with their captions.

    Attributes:
        images: (n, H, W, 3) uint8.
        captions: K sentences.
        truth: (n, K) bool, whether each caption is true for each picture. A caption of another task is false.
        own: (n, K) bool, whether each caption belongs to the picture's task.
    """

    images: NDArray[np.uint8]
    captions: tuple[str, ...]
    truth: NDArray[np.bool_]
    own: NDArray[np.bool_]


def take_pictures(backends: Mapping[str, EnvBackend], steps: Mapping[str, int], seed: int) -> Pictures:
    """Return pictures of all cameras along episodes of the scripted experts, with different amounts of noise.

    Args:
        backends: backends by name, each with a camera and captions.
        steps: number of states by name of the backend at which pictures are taken.
        seed: seed of start states and noise.

    Raises:
        ConfigError: if a backend has no camera, no captions or no expert, or pictures differ in size.
    """
    images: list[NDArray[np.uint8]] = []
    truths: list[Mapping[str, bool]] = []
    captions: dict[str, None] = {}  # as an ordered set
    for name, backend in backends.items():
        cameras = [key for key in backend.spec.observation if key.startswith("images/")]
        if not cameras:
            raise ConfigError(f"tasks.{name}.observation.cameras must name a camera, got none")
        for observation, caption_truth in _visit_states(name, backend, steps[name], derive_seed(seed, name)):
            captions |= dict.fromkeys(caption_truth)
            images += [cast(NDArray[np.uint8], observation[key][..., -3:]) for key in cameras]
            truths += [caption_truth] * len(cameras)
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ConfigError(f"tasks.*.observation.width and height must be the same for all, got {sorted(shapes)}")
    truth = np.array([[picture.get(caption, False) for caption in captions] for picture in truths], dtype=np.bool_)
    own = np.array([[caption in picture for caption in captions] for picture in truths], dtype=np.bool_)
    return Pictures(np.stack(images), tuple(captions), truth, own)


def _visit_states(
    name: str, backend: EnvBackend, steps: int, seed: int
) -> Iterator[tuple[Observation, Mapping[str, bool]]]:
    """Yield ``steps`` observations, each with its captions."""
    if not isinstance(backend, Captioned) or not backend.captions():
        raise ConfigError(f"tasks.{name}: this task has no captions; a simulated task defines them in Task.captions")
    expert = backend.expert(derive_seed(seed, "expert"))
    remaining, episode = steps, 0
    while remaining > 0:
        rng = generator(seed, "episode", episode)
        chooser = ExpertChooser(expert, rng.uniform(*NOISES), rng)
        step = backend.reset(derive_seed(seed, "start", episode))
        yield step.observation, backend.captions()
        remaining, episode = remaining - 1, episode + 1
        while remaining > 0 and not (step.terminated or step.truncated):
            step = backend.step(chooser(step.observation).action)
            yield step.observation, backend.captions()
            remaining -= 1
