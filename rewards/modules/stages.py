"""How far a task has come: a classifier of stages, from a person's labels or from demonstrations cut into steps."""

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
    option,
    require,
)

from ..parts.demonstrations import long_enough, succeeded
from ..parts.module import Floats
from ..parts.segmentation import segment, segment_labels
from ..parts.state_guard import StateGuard
from ..parts.vector_module import NetworkConfig, NetworkModule
from .stage_files import OF_FILE, read_classifier, write_classifier

PARTS = 5
"""Of so many episodes one decides the thresholds, one measures the errors, and the others are fitted to."""

Labels = NDArray[np.int8]


@dataclass(frozen=True)
class StagesConfig(NetworkConfig):
    """A reward for the stage of a task that has been reached: the number of the stage over that of all, 0 to 1.

    Attributes (besides those of :class:`.NetworkConfig`):
        stages: how many there are after the beginning, which is stage 0. One: success.
        file: a classifier that ``robo-rl label`` made of a person's labels; it says ``keys``, ``images.model``,
            ``images.pretrained``, ``stages``, ``hidden`` and ``guard`` itself. Null: demonstrations are cut into
            ``stages`` + 1 steps (:func:`~.segmentation.segment`), each by itself.
        min_length: least number of observations of such a step.
        guard: what must be true of an observation for the last stage to be reached, whatever the classifier says: a
            specification of elements of observations such as ``end_effector_z > 5 cm``; null: nothing.
        false_positives: for each stage the threshold on the probability that it is reached, at least 0.5, is the
            smallest that says so of at most this share of the observations before it, in episodes not fitted to.
        fit_steps: steps of Adam.
        batch_size: rows of each step, as many of each stage.
        views: images of examples are seen in so many ways, the first as they are; with a convolutional network, anew
            each time.
        shift: in the others moved by up to so many pixels down and right, the border repeated: random crops.
        jitter: deviation of the noise added to examples, in deviations of each element over all of them.
    """

    stages: int = option(2, low=1, high=100)
    file: str | None = None
    min_length: int = option(2, low=1)
    guard: str | None = None
    false_positives: float = option(0.01, low=0, below=1)
    fit_steps: int = option(500, low=1)
    batch_size: int = 128
    views: int = option(8, low=1)
    shift: int = option(4, low=0)
    jitter: float = option(0.05, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"stages + 1 = {self.stages + 1} or more"
        require(self.batch_size > self.stages, "batch_size", allowed, self.batch_size)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "StagesReward":
        """Return the module of term ``name``.

        Raises:
            ConfigError: if an observation key is not there, the guard does not fit, or the file is of another task.
            DataError: if the file cannot be read.
        """
        if self.file is None:
            return StagesReward(self, name, spec, seed)
        said, arrays = read_classifier(Path(self.file), spec, f"reward.modules.{name}.file")
        images = dataclasses.replace(self.images, **said.pop("images"))
        config = dataclasses.replace(self, images=images, **said)
        module = StagesReward(config, name, spec, seed)
        module.load(arrays)
        return module


class StagesReward(NetworkModule):
    """See :class:`StagesConfig`.

    The network says how probable each stage is. Stage s is reached where the probability of all from s on is above the
    threshold of s, and all stages before it are reached.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if an observation key is not there, or the guard does not fit.
    """

    config: StagesConfig

    def __init__(self, config: StagesConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed, trains=True)
        self._spec = spec
        self.whole_episodes = self._input.encodes
        self._network = self._make_network(outputs=config.stages + 1)
        self._arrays["thresholds"] = np.zeros(config.stages, dtype=np.float32)  # of the log odds
        self._guard = StateGuard(config.guard, spec, f"reward.modules.{name}.guard")

    def __call__(self, batch: Batch) -> Floats:
        """Return the stages reached (n,) over their number, for n rows."""
        return self._reached(batch).astype(np.float32) / np.float32(self.config.stages)

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Cut the demonstrations into steps and learn these as the stages; with a file there is nothing to do.

        Return how well they were learned.

        Raises:
            DataError: if there are none, or all are too short.
        """
        config = self.config
        if config.file is not None:
            return {}
        episodes = succeeded(episodes, self._name)
        least = (config.stages + 1) * config.min_length
        long_enough([each["action"] for each in episodes], least, self._name)
        kept = [each for each in episodes if len(each["action"]) >= least]
        trajectories = [self._input(each).astype(np.float64) for each in kept]
        everything = np.concatenate(trajectories)
        mean, deviation = everything.mean(0), everything.std(0)
        labels = []
        for trajectory in trajectories:
            scaled = (trajectory - mean) / np.where(deviation > 1e-6, deviation, 1.0)
            begins = segment(scaled, config.stages + 1, config.min_length)
            labels.append(segment_labels(begins, len(trajectory)).astype(np.int8))
        return self.learn(kept, labels)

    def learn(self, episodes: Sequence[Batch], labels: Sequence[Labels]) -> Metrics:
        """Learn from labelled episodes; return the errors on some that were held out.

        Of five episodes one decides the thresholds, one measures the errors, the others are fitted to; with fewer than
        five all do all, and the errors say little.

        Args:
            episodes: rows, as :class:`robo_rl.core.RewardModule` is called with.
            labels: of each, the stage reached after each step (n,); -1: nobody knows.

        Returns:
            ``false_positives/<s>``: share of the observations before stage s that are said to have reached it, and
            ``false_negatives/<s>``: of those from it on that are not; ``positives/<s>`` and ``negatives/<s>``: how many
            there were; rates of none are left out. ``held_out_episodes``: 0 where there were too few.

        Raises:
            DataError: if a stage has no example among the episodes that are fitted to.
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
            # Strictly above this one, so at most ``allowed`` of those before the stage are said to have reached it.
            threshold = float(before[len(before) - 1 - allowed]) if len(before) else 0.0
            self._arrays["thresholds"][stage - 1] = max(0.0, threshold)
        rows, label = measuring
        held_out = float(len(parts[2])) if len(episodes) >= PARTS else 0.0
        return {"held_out_episodes": held_out, **_errors(self._reached(rows), label, self.config.stages)}

    def save(self, path: Path, facts: dict[str, Any]) -> None:
        """Write the classifier for ``file``, with ``facts`` for people: JSON values."""
        images = self.config.images
        config = {key: getattr(self.config, key) for key in OF_FILE}
        config["images"] = {"model": images.model, "pretrained": images.pretrained}
        write_classifier(path, self.state(), config, self._spec, self._input.keys, facts)

    def _fit_network(self, rows: Batch, label: Labels) -> None:
        config = self.config
        members = [np.flatnonzero(label == stage) for stage in range(config.stages + 1)]
        missing = [stage for stage, found in enumerate(members) if not len(found)]
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
            drawn = np.concatenate([found[rng.integers(0, len(found), share)] for found in members])
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
        found: Floats = torch.stack(odds, 1).numpy()
        return found


def _joined(episodes: Sequence[Batch], labels: Sequence[Labels], numbers: NDArray[np.int64]) -> tuple[Batch, Labels]:
    """Return the labelled rows of some episodes, as far as they are looked at, and their labels."""
    known = [labels[number] >= 0 for number in numbers]
    looked_at = [key for key in episodes[0] if key == "action" or key.startswith("next_observation/")]
    rows = {
        key: np.concatenate([episodes[number][key][kept] for number, kept in zip(numbers, known, strict=True)])
        for key in looked_at
    }
    return rows, np.concatenate([labels[number][kept] for number, kept in zip(numbers, known, strict=True)])


def _errors(reached: NDArray[np.int64], label: Labels, stages: int) -> Metrics:
    """Return the rates of errors for each stage; see :meth:`StagesReward.learn`."""
    errors: Metrics = {}
    for stage in range(1, stages + 1):
        positive = label >= stage
        errors |= {f"positives/{stage}": float(positive.sum()), f"negatives/{stage}": float((~positive).sum())}
        wrong = (reached >= stage) != positive
        for kind, those in (("false_positives", ~positive), ("false_negatives", positive)):
            if those.any():
                errors[f"{kind}/{stage}"] = float(wrong[those].mean())
    return errors
