"""Classifier of the stages of a task, learned from a person's labels or from demonstrations cut into steps."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from robo_rl.core import (
    Batch,
    DataError,
    EnvSpec,
    Metrics,
    generator,
)

from ..parts.demonstrations import long_enough, succeeded
from ..parts.module import Floats
from ..parts.segmentation import segment, segment_labels
from ..parts.state_guard import StateGuard
from ..parts.vector_module import NetworkModule
from .stage_files import OF_FILE, read_classifier, write_classifier
from .stages_options import StagesOptions

PARTS = 5
"""Of every ``PARTS`` episodes, one sets the thresholds, one measures the errors, and the others are training data."""

Labels = NDArray[np.int8]


@dataclass(frozen=True)
class StagesConfig(StagesOptions):
    """Module as configured by :class:`.StagesOptions`."""

    def make(self, name: str, spec: EnvSpec, seed: int) -> "StagesReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if an observation key does not exist, the guard does not suit the environment, or the file was
                made for another task.
            DataError: if the file cannot be read.
        """
        if self.file is None:
            return StagesReward(self, name, spec, seed)
        file_values, arrays = read_classifier(Path(self.file), spec, f"reward.modules.{name}.file")
        images = dataclasses.replace(self.images, **file_values.pop("images"))
        config = dataclasses.replace(self, images=images, **file_values)
        module = StagesReward(config, name, spec, seed)
        module.load(arrays)
        return module


class StagesReward(NetworkModule):
    """Reward for the stage that a classifier recognises; see :class:`.StagesOptions`.

    The network estimates the probability of each stage. Stage s is reached if the total probability of s and all later
    stages is above the threshold of s, and all earlier stages are reached.

    Raises:
        ConfigError: if an observation key does not exist, or the guard does not suit the environment.
    """

    config: StagesConfig

    def __init__(self, config: StagesConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed, trains=True)
        self._spec = spec
        self.whole_episodes = self._input.encodes
        self._network = self._make_network(outputs=config.stages + 1)
        self._arrays["thresholds"] = np.zeros(config.stages, dtype=np.float32)  # thresholds of the log odds
        self._guard = StateGuard(config.guard, spec, f"reward.modules.{name}.guard")

    def __call__(self, batch: Batch) -> Floats:
        """Return the stage reached (n,), divided by the number of stages, for n rows."""
        return self._reached(batch).astype(np.float32) / np.float32(self.config.stages)

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Cut the demonstrations into steps, and learn the steps as stages; do nothing if the classifier has a file.

        Return the errors that :meth:`learn` measures.

        Raises:
            DataError: if there are no demonstrations, or all are too short.
        """
        config = self.config
        if config.file is not None:
            return {}
        episodes = succeeded(episodes, self._name)
        min_steps = (config.stages + 1) * config.min_length
        long_enough([episode["action"] for episode in episodes], min_steps, self._name)
        long_episodes = [episode for episode in episodes if len(episode["action"]) >= min_steps]
        trajectories = [self._input(episode).astype(np.float64) for episode in long_episodes]
        all_rows = np.concatenate(trajectories)
        mean, deviation = all_rows.mean(0), all_rows.std(0)
        labels = []
        for trajectory in trajectories:
            scaled = (trajectory - mean) / np.where(deviation > 1e-6, deviation, 1.0)
            begins = segment(scaled, config.stages + 1, config.min_length)
            labels.append(segment_labels(begins, len(trajectory)).astype(np.int8))
        return self.learn(long_episodes, labels)

    def learn(self, episodes: Sequence[Batch], labels: Sequence[Labels]) -> Metrics:
        """Learn from labelled episodes; return the errors on held-out episodes.

        Of every five episodes, one sets the thresholds, one measures the errors, and the others are training data. With
        fewer than five, every episode serves all three purposes, and the errors mean little.

        Args:
            episodes: rows of each episode, as described in :class:`robo_rl.core.RewardModule`.
            labels: for each episode the stage reached after each step (n,); -1 if it is unknown.

        Returns:
            ``false_positives/<s>``: share of the observations before stage s that are classified as having reached it;
            ``false_negatives/<s>``: share of the observations from stage s on that are not. ``positives/<s>`` and
            ``negatives/<s>``: numbers of observations from stage s on and before it; rates of none are omitted.
            ``held_out_episodes``: number of episodes that the errors were measured on; 0 if none were held out.

        Raises:
            DataError: if the training data contain no example of a stage.
        """
        numbers = np.arange(len(episodes))
        if len(episodes) >= PARTS:
            parts = [numbers[numbers % PARTS > 1], numbers[::PARTS], numbers[1::PARTS]]
        else:
            parts = [numbers] * 3
        fitted, calibrating, measuring = (_joined(episodes, labels, part) for part in parts)
        self._fit_network(*fitted)
        rows, label = calibrating
        odds = self._odds(self._input(rows))
        for stage in range(1, self.config.stages + 1):
            before = np.sort(odds[label < stage, stage - 1])
            allowed = int(self.config.false_positives * len(before))
            # A stage is reached strictly above its threshold, so at most ``allowed`` of these observations are errors.
            threshold = float(before[len(before) - 1 - allowed]) if len(before) else 0.0
            self._arrays["thresholds"][stage - 1] = max(0.0, threshold)
        rows, label = measuring
        held_out = float(len(parts[2])) if len(episodes) >= PARTS else 0.0
        return {"held_out_episodes": held_out, **_errors(self._reached(rows), label, self.config.stages)}

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write a file for the option ``file``, with ``facts`` for human readers: JSON values."""
        images = self.config.images
        config = {key: getattr(self.config, key) for key in OF_FILE}
        config["images"] = {"model": images.model, "pretrained": images.pretrained}
        write_classifier(path, self.state(), config, self._spec, self._input.keys, facts)

    def _fit_network(self, rows: Batch, label: Labels) -> None:
        config = self.config
        members = [np.flatnonzero(label == stage) for stage in range(config.stages + 1)]
        missing = [stage for stage, stage_rows in enumerate(members) if not len(stage_rows)]
        if missing:
            raise DataError(
                f"reward module {self._name!r}: no observation of stage {missing[0]} among the {len(label)} to learn "
                "from, which are of three in five episodes: label more"
            )
        moves = self._input.moves(config.views, config.shift, self._seed)
        views = np.stack([self._input(rows, move=move) for move in moves])
        self._normalise(views[0])
        noise = np.float32(config.jitter) * self._arrays["scale"]
        share = config.batch_size // (config.stages + 1)
        targets = torch.arange(config.stages + 1).repeat_interleave(share)
        for step in range(config.fit_steps):
            rng = generator(self._seed, "fit", step)
            drawn = np.concatenate([stage_rows[rng.integers(0, len(stage_rows), share)] for stage_rows in members])
            examples = views[rng.integers(len(views), size=len(drawn)), drawn]
            inputs = torch.from_numpy(self._scaled(self._input.varied(examples, noise, config.shift, rng)))
            self._network.descend(cross_entropy(self._network(inputs), targets))

    def _reached(self, batch: Batch) -> NDArray[np.int64]:
        """Return the stage (n,) that each of n rows has reached."""
        passed = self._odds(self._input(batch)) > self._arrays["thresholds"]
        reached: NDArray[np.int64] = passed.cumprod(axis=1).sum(axis=1)
        reached -= (reached == self.config.stages) & ~self._guard.holds(batch)
        return reached

    def _odds(self, vectors: Floats) -> Floats:
        """Return the log odds (n, stages) that each stage or a later one is reached."""
        logits = self._network.evaluate(torch.from_numpy(self._scaled(vectors)))
        odds = [
            logits[:, stage:].logsumexp(1) - logits[:, :stage].logsumexp(1)
            for stage in range(1, self.config.stages + 1)
        ]
        result: Floats = torch.stack(odds, 1).numpy()
        return result


def _joined(episodes: Sequence[Batch], labels: Sequence[Labels], numbers: NDArray[np.int64]) -> tuple[Batch, Labels]:
    """Return the labelled rows of some episodes, with the keys that modules read, and the labels."""
    labelled = [labels[number] >= 0 for number in numbers]
    keys = [key for key in episodes[0] if key == "action" or key.startswith("next_observation/")]
    rows = {
        key: np.concatenate([episodes[number][key][mask] for number, mask in zip(numbers, labelled, strict=True)])
        for key in keys
    }
    return rows, np.concatenate([labels[number][mask] for number, mask in zip(numbers, labelled, strict=True)])


def _errors(reached: NDArray[np.int64], label: Labels, stages: int) -> Metrics:
    """Return the error rates of each stage; see :meth:`StagesReward.learn`."""
    errors: Metrics = {}
    for stage in range(1, stages + 1):
        positive = label >= stage
        errors |= {f"positives/{stage}": float(positive.sum()), f"negatives/{stage}": float((~positive).sum())}
        is_wrong = (reached >= stage) != positive
        for kind, selected in (("false_positives", ~positive), ("false_negatives", positive)):
            if selected.any():
                errors[f"{kind}/{stage}"] = float(is_wrong[selected].mean())
    return errors
