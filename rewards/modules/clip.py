"""Reward for the similarity of pictures to texts by a vision-language model (VLM-RM, Rocamonde et al. 2024)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Batch, CheckpointError, ConfigError, EnvSpec, State, option, require

from ..parts.arrays import taken
from ..parts.module import Floats, Module
from ..parts.vector_input import image_keys
from ..vision.encoder import ClipEncoder, load_encoder
from ..vision.encoder_config import EncoderConfig

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Prompts:
    """Texts for a task: descriptions of its goal, and of other states."""

    goals: tuple[str, ...]
    baselines: tuple[str, ...]


PROMPTS = {
    "reach": Prompts(
        ("the gripper is at the green ball", "the gripper is close to the green ball"),
        ("the gripper is far from the green ball",),
    ),
    "pick_cube": Prompts(
        (
            "the gripper is at the red cube",
            "the gripper holds the red cube",
            "the red cube is lifted",
            "the red cube is lifted high",
        ),
        ("the gripper is far from the red cube", "the red cube lies on the table"),
    ),
    "open_door": Prompts(
        ("the door handle is turned", "the door is ajar", "the door is half open", "the door is open"),
        ("the gripper is far from the door handle", "the door handle is level", "the door is closed"),
    ),
}
"""Texts by task, from the training captions of the bundled model."""


@dataclass(frozen=True)
class ClipConfig(EncoderConfig, section=""):
    """Reward for images that match a text. It needs cameras: ``task.observation.cameras``.

    Attributes (besides those of :class:`EncoderConfig`):
        goals: texts that describe the goal; empty: those for the task in :data:`PROMPTS`, with its baselines.
        baselines: texts that describe the scene in any state; may be empty if ``alpha`` is 0.
        alpha: strength of the projection onto the line from baseline to goal, 0 (none) to 1.
        cameras: names of the cameras; null: all. The rewards of several cameras are averaged.
    """

    goals: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    alpha: float = option(0.5, low=0, high=1)
    cameras: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("goals", "baselines"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
            require(all(text.strip() for text in getattr(self, key)), key, "texts", list(getattr(self, key)))
        require(
            not self.baselines or bool(self.goals),
            "goals",
            "one or more texts if baselines is not empty",
            list(self.goals),
        )
        require(
            not self.goals or bool(self.baselines) or self.alpha == 0,
            "baselines",
            "one or more texts if alpha is not 0",
            list(self.baselines),
        )

    def make(self, name: str, spec: EnvSpec, seed: int) -> "ClipReward":
        """Return the module of term ``name``."""
        return ClipReward(self, name, spec)


class ClipReward(Module):
    """Reward for pictures that match a text; see :class:`ClipConfig`.

    The embeddings s of a picture, g of the goals and b of the baselines have unit length; for several texts, g and b
    are the means. With d = g - b, P = alpha d d' / |d|^2 + (1 - alpha) I and the reward is 1 - |(s - g) P|^2 / 2, at
    most 1. For alpha = 0 and one text it is the cosine of s and g. A larger alpha reduces the influence of
    directions other than the one from baseline to goal.

    Pictures are scored a whole episode at a time, which is many times faster than one by one.

    Raises:
        ConfigError: if there is no camera, no text, or no such model.
        DataError: if the files of the model are damaged.
    """

    whole_episodes = True

    def __init__(self, config: ClipConfig, name: str, spec: EnvSpec) -> None:
        super().__init__()
        self.config = config
        self._name = name
        option = f"reward.modules.{name}"
        self._keys = image_keys(config.cameras, spec, f"{option}.cameras")
        prompts = Prompts(config.goals, config.baselines) if config.goals else PROMPTS.get(spec.task)
        if prompts is None:
            raise ConfigError(
                f'{option}.goals: describe what a picture of the goal of {spec.task!r} shows: goals=["a text"]'
            )
        encoder = load_encoder(config.encoder())
        if not isinstance(encoder, ClipEncoder):
            raise ConfigError(f"{option}.model: {config.model} does not encode texts: choose a CLIP model")
        self._encoder = encoder
        self._prompts = prompts
        self._goal = self._mean_embedding(prompts.goals)
        self._baseline = self._mean_embedding(prompts.baselines) if prompts.baselines else self._goal
        if config.alpha > 0 and np.linalg.norm(self._goal - self._baseline) < 1e-4:
            raise ConfigError(f"{option}.baselines must have another embedding than goals in this model")

    def _mean_embedding(self, texts: Sequence[str]) -> Doubles:
        mean: Doubles = self._encoder.texts(texts).astype(np.float64).mean(0)
        return mean

    def __call__(self, batch: Batch) -> Floats:
        """Return rewards (n,), at most 1."""
        rewards = []
        for key in self._keys:
            frames = batch[f"next_observation/{key}"][..., -3:]  # the newest frame of a stack
            embeddings = self._encoder.images(frames)
            rewards.append(projected_reward(embeddings, self._goal, self._baseline, self.config.alpha))
        mean: Floats = np.mean(rewards, axis=0).astype(np.float32)
        return mean

    def state(self) -> State:
        """Return a hash of everything that the rewards depend on, so that rewards of different models are not mixed."""
        return {"identity": self._identity()}

    def load(self, state: State) -> None:
        """Check that the rewards so far were computed with this model and these texts.

        Raises:
            CheckpointError: if they were not.
        """
        identity = self._identity()
        if not np.array_equal(taken(state, "identity", self._name, like=identity), identity):
            raise CheckpointError(
                f"reward module {self._name!r}: the checkpoint was scored by another model, or with other texts, "
                "cameras or alpha; resume with the configuration and the model of the run"
            )

    def _identity(self) -> NDArray[np.uint8]:
        parts = (self._encoder.fingerprint, self._prompts, self.config.alpha, self._keys)
        return np.frombuffer(hashlib.blake2b(repr(parts).encode(), digest_size=16).digest(), dtype=np.uint8).copy()


def projected_reward(images: NDArray[np.floating], goal: Doubles, baseline: Doubles, alpha: float) -> Doubles:
    """Return 1 - |(s - g) P|^2 / 2 for each of n embeddings s, with P as defined in :class:`ClipReward`.

    Args:
        images: s (n, E).
        goal: g (E,).
        baseline: b (E,), different from g unless ``alpha`` is 0.
        alpha: strength of the projection.
    """
    away = images.astype(np.float64) - goal
    projected = (1 - alpha) * away
    if alpha > 0:
        line = goal - baseline
        projected += alpha * np.outer(away @ line, line) / (line @ line)
    rewards: Doubles = 1 - (projected**2).sum(1) / 2
    return rewards
