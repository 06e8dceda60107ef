"""Generative adversarial imitation, off-policy (discriminator-actor-critic, Kostrikov et al. 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from robo_rl.core import (
    Batch,
    EnvSpec,
    Experience,
    Metrics,
    Options,
    State,
    as_config,
    derive_seed,
    generator,
    option,
    require,
)

from .images import ImagesConfig
from .module import (
    Floats,
    Module,
    VectorInput,
    constant_elements,
    succeeded,
    take_over,
    taken,
    with_prefix,
    without_prefix,
)
from .networks import TrainedNetwork


@dataclass(frozen=True)
class GailConfig(Options):
    """A reward for doing what demonstrations do, as a discriminator that learns beside the policy tells it.

    Attributes:
        keys: observation keys to look at; null: all that are not images.
        images: how those among them that are images are seen.
        actions: judge an observation and the action taken there; false: the observations before and after a step,
            which is imitation from observation alone (Torabi et al. 2019).
        discount: of the agent too, from then on: what comes after a termination is worth the sum of it.
        penalty: weight of the Lipschitz penalty, the mean of max(0, norm - 1)^2 over gradients of the logit.
        interval: environment steps between updates.
        updates: steps of each update.
        learning_starts: environment steps in the replay before the first.
        batch_size: rows of each step, half of them demonstrated.
        hidden: widths of the hidden layers.
        learning_rate: of Adam.
    """

    keys: tuple[str, ...] | None = None
    images: ImagesConfig = field(default_factory=ImagesConfig)
    actions: bool = False
    discount: float = option(0.97, low=0, below=1)
    penalty: float = option(10.0, low=0)
    interval: int = option(10, low=1)
    updates: int = option(10, low=1)
    learning_starts: int = option(100, low=1)
    batch_size: int = option(128, low=2)
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = option(3e-4, above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "images", as_config(self.images, ImagesConfig))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        require(all(width >= 1 for width in self.hidden), "hidden", "widths of 1 or more", list(self.hidden))

    def make(self, name: str, spec: EnvSpec, seed: int) -> "Gail":
        """Return the module of term ``name``."""
        return Gail(self, name, spec, seed)


class Gail(Module):
    """See :class:`GailConfig`.

    A network's logit f tells demonstrated rows (label 1) from rows of the replay (label 0) by cross-entropy, whose
    optimum is the log of the ratio of their densities. The reward is f itself, log D - log(1 - D) of the discriminator
    D. What follows a termination is the absorbing state, for ever: each termination adds an absorbing row to its side,
    all zero but for an indicator that is 0 elsewhere, and the step that terminates is worth f + discount * a /
    (1 - discount), where a is the logit of that row. So to end is worth more than to go on only where demonstrations
    end more often, and a constant added to f changes no preference. A truncation is no end.

    Elements of observations that stay the same along each demonstration are not looked at.

    How much weight absorbing rows have does not change the optimum, which is a ratio; each counts as one row.

    The penalty (Blondé et al. 2022) holds the gradient of f by its inputs at norm 1 or less, at points between a
    demonstrated row and one of the replay, absorbing rows among them; how far between is drawn for the two parts of a
    row apart. It bounds the reward, which off-policy training needs.

    Args:
        config: of the module.
        name: of its term.
        spec: of the environment.
        seed: of the run.

    Raises:
        ConfigError: if an observation key is not there.
    """

    learned = True
    judges_state = False

    def __init__(self, config: GailConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__()
        self.config = config
        self._name = name
        self._seed = derive_seed(seed, "reward", name)
        self._input = VectorInput(config.keys, config.images, spec, f"reward.modules.{name}")
        self._parts = [self._input.size, spec.action.shape[0] if config.actions else self._input.size]
        self._network = TrainedNetwork(
            sum(self._parts) + 1,
            config.hidden,
            1,
            learning_rate=config.learning_rate,
            seed=derive_seed(self._seed, "network"),
            name=name,
        )
        self._absorbing = np.zeros((1, sum(self._parts) + 1), dtype=np.float32)
        self._absorbing[0, -1] = 1.0
        self._demonstrated = np.zeros((0, sum(self._parts) + 1), dtype=np.float32)
        self._terminated = np.zeros(0, dtype=np.bool_)  # of each of those
        self._arrays: dict[str, NDArray[Any]] = {
            "shift": np.zeros(self._input.size, dtype=np.float32),
            "scale": np.ones(self._input.size, dtype=np.float32),
            "waited": np.zeros(1, dtype=np.int64),
        }

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Take note of what was demonstrated.

        Raises:
            DataError: if there is nothing.
        """
        episodes = succeeded(episodes, self._name)
        trajectories = [self._input.trajectory(episode) for episode in episodes]
        observed = np.concatenate(trajectories)
        shift, deviation = observed.mean(0), observed.std(0)
        scale = np.where(deviation > 1e-6, deviation, 1.0)
        # Of what tells the demonstrations apart (where the door stands) there are as many cases as demonstrations: a
        # network knows these by heart, and each other case is taken for the policy's.
        unseen = constant_elements([(each - shift) / scale for each in trajectories])
        self._arrays["shift"][...] = shift
        self._arrays["scale"][...] = np.where(unseen, np.inf, scale)
        self._demonstrated = np.concatenate([self._vectors(episode) for episode in episodes])
        self._terminated = np.concatenate([episode["terminated"] for episode in episodes])
        return {}

    def discount(self) -> float:
        """Return the discount that absorbing states are worth what they are by."""
        return self.config.discount

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards of n rows (n,)."""
        gamma = self.config.discount
        absorbed = gamma / (1 - gamma) * self._logits(self._absorbing)
        rewards: Floats = self._logits(self._vectors(batch)) + batch["terminated"] * absorbed
        return rewards

    def update(self, experience: Experience) -> Metrics:
        """Learn to tell the policy's rows from the demonstrated ones, every ``interval`` calls.

        Returns:
            ``loss``, the cross-entropy, and ``penalty``, means over the steps; ``demonstrated`` and ``policy``, the
            mean logits of the last rows of either side.
        """
        config, waited = self.config, self._arrays["waited"]
        waited += 1
        if waited[0] < config.interval or len(experience) < config.learning_starts:
            return {}
        waited[0] = 0
        half, collected = config.batch_size // 2, []
        for step in range(config.updates):
            rng = generator(self._seed, "update", self.version, step)
            drawn = rng.integers(0, len(self._demonstrated), half)
            theirs = self._with_absorbing(self._demonstrated[drawn], self._terminated[drawn])
            rows = experience.sample_rows(half, rng)
            ours = self._with_absorbing(self._vectors(rows), rows["terminated"])
            entropy, penalty = self._cross_entropy(theirs, ours, half), self._penalty(theirs, ours, half, rng)
            self._network.descend(entropy + config.penalty * penalty)
            collected.append((float(entropy.detach()), float(penalty.detach())))
        self.version += 1
        loss, penalised = np.mean(collected, axis=0).tolist()
        return {
            "loss": loss,
            "penalty": penalised,
            "demonstrated": float(self._logits(theirs).mean()),
            "policy": float(self._logits(ours).mean()),
        }

    def _cross_entropy(self, theirs: Floats, ours: Floats, rows: int) -> Tensor:
        """Return the loss of demonstrated (n, P) and own (m, P) inputs, of ``rows`` rows of either side."""
        logits = self._network(torch.from_numpy(np.concatenate((theirs, ours))))[:, 0]
        # Divided by rows, not by inputs: how many absorbing ones there are is chance, and a mean of each side is not.
        return (softplus(-logits[: len(theirs)]).sum() + softplus(logits[len(theirs) :]).sum()) / rows

    def _penalty(self, theirs: Floats, ours: Floats, points: int, rng: np.random.Generator) -> Tensor:
        """Return the Lipschitz penalty at ``points`` points between demonstrated (n, P) and own (m, P) inputs."""
        one, other = (torch.from_numpy(side[rng.integers(0, len(side), points)]) for side in (theirs, ours))
        shares = torch.from_numpy(rng.uniform(size=(points, 2)).astype(np.float32))
        part = torch.repeat_interleave(torch.tensor([0, 1, 0]), torch.tensor([*self._parts, 1]))
        share = shares[:, part]
        between = (share * one + (1 - share) * other).requires_grad_()
        (gradient,) = torch.autograd.grad(self._network(between).sum(), between, create_graph=True)
        # A square root has no derivative at 0, where the gradient begins for inputs that no unit reacts to.
        norm = (gradient.square().sum(1) + 1e-12).sqrt()
        return (norm - 1).clamp(min=0).square().mean()

    def _vectors(self, batch: Batch) -> Floats:
        """Return the inputs (n, P) of n rows, none of them absorbing: both parts of each, and the indicator."""
        before = self._scaled(self._input(batch, "observation"))
        second = batch["action"] if self.config.actions else self._scaled(self._input(batch))
        indicator = np.zeros((len(before), 1), dtype=np.float32)
        return np.concatenate((before, second, indicator), axis=1, dtype=np.float32)

    def _with_absorbing(self, vectors: Floats, terminated: NDArray[np.bool_]) -> Floats:
        """Return inputs (n, P), and one absorbing for each that terminated."""
        return np.concatenate((vectors, self._absorbing.repeat(int(terminated.sum()), axis=0)))

    def _scaled(self, vectors: Floats) -> Floats:
        scaled: Floats = (vectors - self._arrays["shift"]) / self._arrays["scale"]
        return scaled

    @torch.no_grad()
    def _logits(self, inputs: Floats) -> Floats:
        logits: Floats = self._network(torch.from_numpy(inputs))[:, 0].numpy()
        return logits

    def state(self) -> State:
        """Return network, optimiser, what was demonstrated, and the count of steps to the next update."""
        network = with_prefix("network/", self._network.state())
        version = np.array([self.version], dtype=np.int64)
        shown = {"demonstrated": self._demonstrated, "terminated": self._terminated}
        return {**self._arrays, **network, **shown, "version": version, **self._input.state()}

    def load(self, state: State) -> None:
        """Go on from ``state``.

        Raises:
            CheckpointError: if it is of another module.
        """
        self._input.check(state, self._name)
        version = np.zeros(1, dtype=np.int64)
        take_over({**self._arrays, "version": version}, state, self._name)
        self.version = int(version[0])
        self._demonstrated = taken(state, "demonstrated", self._name, like=self._demonstrated)
        self._terminated = taken(state, "terminated", self._name, like=self._terminated)
        self._network.load(without_prefix("network/", state))
