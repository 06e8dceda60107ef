"""Classifiers of success from examples: fixed (SERL, Luo et al. 2024) or adversarial (VICE, Fu et al. 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from robo_rl.core import (
    Batch,
    EnvSpec,
    Experience,
    Metrics,
    generator,
    option,
)

from ..parts.demonstrations import long_enough, succeeded
from ..parts.module import Floats
from ..parts.state_guard import StateGuard
from ..parts.vector_config import NetworkConfig
from ..parts.vector_module import NetworkModule


@dataclass(frozen=True)
class GoalClassifierConfig(NetworkConfig):
    """Options of all classifiers of success whose positive examples are the ends of demonstrations.

    Attributes (besides those of :class:`.NetworkConfig`):
        goal_states: number of last states of each demonstration that are examples of success.
        margin: number of states before those that are not used; all earlier ones are examples of failure.
        guard: condition that an observation must satisfy to be a success, whatever the classifier returns, such as
            ``end_effector_z > 10 cm``. Null: none.
        fit_steps: number of gradient steps on the demonstrations.
        batch_size: number of rows in each gradient step, half of them successes.
        jitter: standard deviation of the noise added to examples, relative to that of each element over the
            demonstrations.
        views: number of views of the images of examples, the first unchanged; with a convolutional network, resampled
            each time.
        shift: largest shift of the other views down and right [pixels], with the border repeated: random crops (SERL).
    """

    goal_states: int = option(1, low=1)
    margin: int = option(1, low=0)
    guard: str | None = None
    fit_steps: int = option(500, low=0)
    batch_size: int = option(128, low=2)
    jitter: float = option(0.05, low=0)
    views: int = option(8, low=1)
    shift: int = option(4, low=0)


class GoalClassifier(NetworkModule):
    """Base class of classifiers of success; see :class:`GoalClassifierConfig`.

    Raises:
        ConfigError: if an observation key does not exist, or the guard does not suit the environment.
    """

    config: GoalClassifierConfig

    def __init__(self, config: GoalClassifierConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed, trains=True)
        self._guard = StateGuard(config.guard, spec, f"reward.modules.{name}.guard")
        self._moves = self._input.moves(config.views, config.shift, self._seed)
        self._network = self._make_network()
        self._arrays["version"] = self._version
        self._rows["goals"] = np.zeros((0, self._input.size), dtype=np.float32)

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Learn from the demonstrations, without those that are too short to contain an example of failure.

        With four or more, every fourth one is held out for calibration. With fewer, all serve both purposes.

        Raises:
            DataError: if there are no demonstrations, or all are too short.
        """
        episodes = succeeded(episodes, self._name)
        min_length = self.config.goal_states + self.config.margin + 1
        views = [
            long_enough([self._input.trajectory(each, move) for each in episodes], min_length, self._name)
            for move in self._moves
        ]
        self._normalise(np.concatenate(views[0]))
        fitted, held_out = views, views[0]
        if len(held_out) >= 4:
            fitted = [[each for number, each in enumerate(view) if number % 4] for view in views]
            held_out = held_out[::4]
        goals, failures = self._examples(list(chain(*fitted)))
        for step in range(self.config.fit_steps):
            rng = generator(self._seed, "fit", step)
            self._descend(goals, failures[rng.integers(0, len(failures), self.config.batch_size // 2)], rng)
        self._rows["goals"], _ = self._examples(list(chain(*views)))
        self._calibrate(self._logits(self._examples(held_out)[1]))
        return {}

    def _calibrate(self, failures: Floats) -> None:
        """Calibrate on the logits (n,) of held-out examples of failure; does nothing by default."""

    def _examples(self, trajectories: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return the examples of success (n, F) and of failure (m, F) in demonstrations."""
        goals, margin = self.config.goal_states, self.config.margin
        return (
            np.concatenate([trajectory[-goals:] for trajectory in trajectories]),
            np.concatenate([trajectory[: -goals - margin] for trajectory in trajectories]),
        )

    def _logits(self, vectors: Floats) -> Floats:
        logits: Floats = self._network.evaluate(torch.from_numpy(self._scaled(vectors)))[:, 0].numpy()
        return logits

    def _descend(self, goals: Floats, failures: Floats, rng: np.random.Generator) -> float:
        """Take a gradient step on ``failures`` and on as many rows drawn from ``goals``; return the loss."""
        sampled_goals = goals[rng.integers(0, len(goals), len(failures))]
        noise = np.float32(self.config.jitter) * self._arrays["scale"]
        examples = self._input.varied(np.concatenate((sampled_goals, failures)), noise, self.config.shift, rng)
        return self._network.descend(self._loss(torch.from_numpy(self._scaled(examples)), len(sampled_goals), rng))

    def _loss(self, inputs: Tensor, goals: int, rng: np.random.Generator) -> Tensor:
        """Return the loss on inputs (n, F), the first ``goals`` of which are examples of success."""
        labels = (torch.arange(len(inputs)) < goals).float()
        return cross_entropy(self._network(inputs)[:, 0], labels)


@dataclass(frozen=True)
class ClassifierConfig(GoalClassifierConfig):
    """Reward of 1 if a state looks like the ends of demonstrations, else 0.

    Attributes (besides those of :class:`GoalClassifierConfig`):
        false_positives: largest share of failures that are classified as success, in demonstrations that the classifier
            was not fitted to. It determines the threshold on the probability, at least 0.5, which is the smallest
            possible.
    """

    false_positives: float = option(0.01, low=0, below=1)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "ClassifierReward":
        """Return the module of term ``name``."""
        return ClassifierReward(self, name, spec, seed)


class ClassifierReward(GoalClassifier):
    """Reward of a fixed classifier; see :class:`ClassifierConfig`.

    With fewer than four demonstrations the threshold is calibrated on the training data.
    """

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        self.whole_episodes = self._input.encodes
        self._arrays["threshold"] = np.zeros(1, dtype=np.float32)  # threshold of the logit

    def __call__(self, batch: Batch) -> Floats:
        """Return 1 or 0 for each of the n rows."""
        succeeds = self._logits(self._input(batch)) > self._arrays["threshold"]
        return (succeeds & self._guard.holds(batch)).astype(np.float32)

    def _calibrate(self, failures: Floats) -> None:
        allowed = int(self.config.false_positives * len(failures))
        # Only values strictly above the threshold are successes, so at most ``allowed`` failures count as successes.
        self._arrays["threshold"][0] = max(0.0, float(np.sort(failures)[len(failures) - 1 - allowed]))


@dataclass(frozen=True)
class ViceConfig(GoalClassifierConfig):
    """Classifier whose negative examples are the policy's own states: it cannot be exploited for long.

    Attributes (besides those of :class:`GoalClassifierConfig`):
        interval: environment steps between updates.
        updates: number of gradient steps of each update.
        learning_starts: environment steps in the replay before the first update.
        smoothing: label smoothing: labels are 1 - smoothing and smoothing.
        penalty: weight of the gradient penalty, (norm - 1)^2 at mixed examples.
        soft: whether the reward is the probability itself; otherwise it is 1 if the probability is at least one half.
    """

    learning_rate: float = 3e-4
    interval: int = option(10, low=1)
    updates: int = option(10, low=1)
    learning_starts: int = option(100, low=1)
    smoothing: float = option(0.1, low=0, below=0.5)
    penalty: float = option(10.0, low=0)
    soft: bool = False

    def make(self, name: str, spec: EnvSpec, seed: int) -> "ViceReward":
        """Return the module of term ``name``."""
        return ViceReward(self, name, spec, seed)


class ViceReward(GoalClassifier):
    """Reward of an adversarial classifier; see :class:`ViceConfig`.

    Half of each batch are examples of success, labelled 1. The other half are states of the replay buffer, labelled 0
    whether they are successes or not. Where the policy's states are as frequent as the examples, the optimal
    probability is one half. Examples and labels are mixed in pairs (mixup, Beta(1, 1)), pictures by their features;
    labels are smoothed, and the gradient norm at mixed examples is regularised towards 1.
    """

    learned = True
    config: ViceConfig

    def __init__(self, config: ViceConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        self._arrays["waited"] = self._waited

    def __call__(self, batch: Batch) -> Floats:
        """Return 1 or 0, or the probability, for each of the n rows."""
        logits = self._logits(self._input(batch))
        if not self.config.soft:
            return ((logits >= 0) & self._guard.holds(batch)).astype(np.float32)
        probabilities: Floats = torch.sigmoid(torch.from_numpy(logits)).numpy()
        return probabilities * self._guard.holds(batch)

    def update(self, experience: Experience) -> Metrics:
        """Learn to distinguish the policy's states from the examples, every ``interval`` calls; return metrics."""
        config = self.config
        if not self._is_due(config.interval, len(experience) >= config.learning_starts):
            return {}
        losses = []
        for step in range(config.updates):
            rng = generator(self._seed, "update", self.version, step)
            rows = experience.sample_rows(config.batch_size // 2, rng)
            states = self._input(rows, move=self._moves[rng.integers(len(self._moves))])
            losses.append(self._descend(self._rows["goals"], states, rng))
        self.version += 1
        logits = self._logits(self._input(experience.sample_rows(256, generator(self._seed, "look", self.version))))
        return {"loss": float(np.mean(losses)), "positive_fraction": float((logits >= 0).mean())}

    def _loss(self, inputs: Tensor, goals: int, rng: np.random.Generator) -> Tensor:
        order = torch.from_numpy(rng.permutation(len(inputs)))
        share = torch.from_numpy(rng.uniform(size=(len(inputs), 1)).astype(np.float32))
        labels = torch.where(torch.arange(len(inputs)) < goals, 1 - self.config.smoothing, self.config.smoothing)
        embedded = self._network.embed(inputs)
        mixed = (share * embedded + (1 - share) * embedded[order]).requires_grad_()
        label = share[:, 0] * labels + (1 - share[:, 0]) * labels[order]
        logits = self._network.judge(mixed)[:, 0]
        (gradient,) = torch.autograd.grad(logits.sum(), mixed, create_graph=True)
        # The square root has no derivative at 0, and inputs that activate no unit have a gradient of 0.
        norm = (gradient.square().sum(1) + 1e-12).sqrt()
        return cross_entropy(logits, label) + self.config.penalty * (norm - 1).square().mean()
