"""Success from examples: a classifier, fixed (SERL, Luo et al. 2024) or adversarial (VICE, Fu et al. 2018)."""

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
from ..parts.vector_module import NetworkConfig, NetworkModule


@dataclass(frozen=True)
class GoalClassifierConfig(NetworkConfig):
    """What all classifiers of success have, whose examples of it are the ends of demonstrations.

    Attributes (besides those of :class:`.NetworkConfig`):
        goal_states: how many of the last states of each demonstration are examples of success.
        margin: how many states before those are examples of nothing; all earlier ones are examples of failure.
        guard: what must be true of an observation for it to be a success, whatever the classifier says: a condition
            such as ``end_effector_z > 10 cm``. Null: nothing.
        fit_steps: steps on the demonstrations.
        batch_size: rows of each step, half of them successes.
        jitter: deviation of the noise added to examples, in deviations of each element over the demonstrations.
        views: images of examples are seen in so many ways, the first as they are; with a convolutional network, anew
            each time.
        shift: in the others moved by up to so many pixels down and right, the border repeated: random crops (SERL).
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
    """See :class:`GoalClassifierConfig`.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if an observation key is not there, or the guard does not fit.
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
        """Learn from the demonstrations. Those too short to hold a failure are left out.

        Every fourth one, if there are four, is not fitted to and judges the outcome; with fewer, all do.

        Raises:
            DataError: if there are none, or all are too short.
        """
        episodes = succeeded(episodes, self._name)
        least = self.config.goal_states + self.config.margin + 1
        views = [
            long_enough([self._input.trajectory(each, move) for each in episodes], least, self._name)
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
        """Take note of the logits (n,) of failures that were not fitted to, where that matters."""

    def _examples(self, trajectories: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return successes (n, F) and failures (m, F) of demonstrations."""
        goals, margin = self.config.goal_states, self.config.margin
        return (
            np.concatenate([each[-goals:] for each in trajectories]),
            np.concatenate([each[: -goals - margin] for each in trajectories]),
        )

    def _logits(self, vectors: Floats) -> Floats:
        logits: Floats = self._network.evaluate(torch.from_numpy(self._scaled(vectors)))[:, 0].numpy()
        return logits

    def _descend(self, goals: Floats, failures: Floats, rng: np.random.Generator) -> float:
        """Take a step on as many of ``goals``, drawn anew, as there are ``failures``; return the loss."""
        drawn = goals[rng.integers(0, len(goals), len(failures))]
        noise = np.float32(self.config.jitter) * self._arrays["scale"]
        examples = self._input.varied(np.concatenate((drawn, failures)), noise, self.config.shift, rng)
        return self._network.descend(self._loss(torch.from_numpy(self._scaled(examples)), len(drawn), rng))

    def _loss(self, inputs: Tensor, goals: int, rng: np.random.Generator) -> Tensor:
        """Return the loss on inputs (n, F) of which the first ``goals`` are successes."""
        labels = (torch.arange(len(inputs)) < goals).float()
        return cross_entropy(self._network(inputs)[:, 0], labels)


@dataclass(frozen=True)
class ClassifierConfig(GoalClassifierConfig):
    """A reward of 1 where a state looks like the ends of demonstrations, else 0.

    Attributes (besides those of :class:`GoalClassifierConfig`):
        false_positives: the threshold on the probability, at least 0.5, is the smallest that calls at most this share
            of the failures a success, in demonstrations that the classifier was not fitted to.
    """

    false_positives: float = option(0.01, low=0, below=1)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "ClassifierReward":
        """Return the module of term ``name``."""
        return ClassifierReward(self, name, spec, seed)


class ClassifierReward(GoalClassifier):
    """See :class:`ClassifierConfig`. With fewer than four demonstrations the threshold is only as good as the fit."""

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        self.whole_episodes = self._input.encodes
        self._arrays["threshold"] = np.zeros(1, dtype=np.float32)  # of the logit

    def __call__(self, batch: Batch) -> Floats:
        """Return 1 or 0 for each of the n rows."""
        succeeds = self._logits(self._input(batch)) > self._arrays["threshold"]
        return (succeeds & self._guard.holds(batch)).astype(np.float32)

    def _calibrate(self, failures: Floats) -> None:
        allowed = int(self.config.false_positives * len(failures))
        # Strictly above this one, so at most ``allowed`` of the failures are called successes.
        self._arrays["threshold"][0] = max(0.0, float(np.sort(failures)[len(failures) - 1 - allowed]))


@dataclass(frozen=True)
class ViceConfig(GoalClassifierConfig):
    """A classifier whose examples of failure are what the policy does: it cannot be fooled for long.

    Attributes (besides those of :class:`GoalClassifierConfig`):
        interval: environment steps between updates.
        updates: steps of each update.
        learning_starts: environment steps in the replay before the first.
        smoothing: labels are 1 - smoothing and smoothing.
        penalty: weight of the gradient penalty, (norm - 1)^2 at mixed examples.
        soft: the reward is the probability itself rather than whether it is one half or more.
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
    """See :class:`ViceConfig`.

    Half of each batch are examples of success, labelled 1, half are states of the replay, labelled 0, whether they are
    successes or not: where the policy is as often as the examples, the classifier says one half. Examples and labels
    are mixed in pairs (mixup, Beta(1, 1)), pictures by their features; labels are smoothed, and the gradient at mixed
    examples is drawn to norm 1.
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
        """Learn to tell the policy's states from the examples, every ``interval`` calls; return the mean loss."""
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
        # A square root has no derivative at 0, where the gradient begins for inputs that no unit reacts to.
        norm = (gradient.square().sum(1) + 1e-12).sqrt()
        return cross_entropy(logits, label) + self.config.penalty * (norm - 1).square().mean()
