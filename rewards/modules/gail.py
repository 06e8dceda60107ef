"""Off-policy generative adversarial imitation (discriminator-actor-critic, Kostrikov et al. 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    generator,
    option,
)

from ..parts.demonstrations import constant_elements, succeeded
from ..parts.module import Floats
from ..parts.vector_config import NetworkConfig
from ..parts.vector_module import NetworkModule


@dataclass(frozen=True)
class GailConfig(NetworkConfig):
    """Reward for acting like demonstrations, from a discriminator that learns beside the policy.

    Attributes (besides those of :class:`.NetworkConfig`):
        actions: judge an observation and the action taken in it; false: the observations before and after a step, which
            is imitation from observation alone (Torabi et al. 2019).
        discount: discount of the infinite series of rewards after a termination; the agent uses this discount too.
        penalty: weight of the Lipschitz penalty, the mean of max(0, norm - 1)^2 over gradients of the logit.
        interval: environment steps between updates.
        updates: number of gradient steps of each update.
        learning_starts: environment steps in the replay before the first update.
        batch_size: number of rows in each gradient step, half of them from demonstrations.
    """

    actions: bool = False
    discount: float = option(0.97, low=0, below=1)
    penalty: float = option(10.0, low=0)
    interval: int = option(10, low=1)
    updates: int = option(10, low=1)
    learning_starts: int = option(100, low=1)
    batch_size: int = option(128, low=2)
    learning_rate: float = option(3e-4, above=0, below=1)

    def make(self, name: str, spec: EnvSpec, seed: int) -> "GailReward":
        """Return the module of term ``name``."""
        return GailReward(self, name, spec, seed)


class GailReward(NetworkModule):
    """Reward of a discriminator that learns beside the policy; see :class:`GailConfig`.

    The logit f of a network distinguishes demonstrated rows (label 1) from rows of the replay buffer (label 0). It is
    trained with cross-entropy, whose optimum is the logarithm of the ratio of their densities. The reward is f, which
    equals log D - log(1 - D) for the discriminator D. A termination is followed by the absorbing state forever: each
    termination adds an absorbing row to its side, which is 0 except for an indicator that is 0 in all other rows. The
    reward of a step that terminates is f + discount * a / (1 - discount), where a is the logit of the absorbing row.
    Ending an episode is therefore worth more than continuing only if demonstrations end more often, and a constant
    added to f changes no preference. A truncation does not lead to the absorbing state.

    Elements of observations that stay the same along each demonstration are ignored.

    The weight of absorbing rows does not change the optimum, which is a ratio; each counts as one row.

    The penalty (Blondé et al. 2022) keeps the norm of the gradient of f with respect to its inputs at 1 or less. It
    applies at random points between a demonstrated row and a row of the replay buffer, including absorbing rows; the
    interpolation factors of the two parts of a row are drawn separately. The penalty bounds the reward, which
    off-policy training needs.
    """

    learned = True
    judges_state = False

    config: GailConfig

    def __init__(self, config: GailConfig, name: str, spec: EnvSpec, seed: int) -> None:
        super().__init__(config, name, spec, seed)
        self._arrays |= {"version": self._version, "waited": self._waited}
        self._parts = [self._input.size, spec.action.shape[0] if config.actions else self._input.size]
        inputs = sum(self._parts) + 1
        self._network = self._make_network(inputs=inputs)
        self._absorbing = np.zeros((1, inputs), dtype=np.float32)
        self._absorbing[0, -1] = 1.0
        self._rows |= {
            "demonstrated": np.zeros((0, inputs), dtype=np.float32),
            "terminated": np.zeros(0, dtype=np.bool_),  # one for each demonstrated row
        }

    def fit(self, episodes: Sequence[Batch]) -> Metrics:
        """Store the rows of the demonstrations."""
        episodes = succeeded(episodes, self._name)
        trajectories = [self._input.trajectory(episode) for episode in episodes]
        observed = np.concatenate(trajectories)
        shift, deviation = observed.mean(0), observed.std(0)
        scale = np.where(deviation > 1e-6, deviation, 1.0)
        # An element that is constant in each demonstration (the position of a door) has only as many values as there
        # are demonstrations. A network memorises these, and attributes every other value to the policy.
        unseen = constant_elements([(trajectory - shift) / scale for trajectory in trajectories])
        self._arrays["shift"][...] = shift
        self._arrays["scale"][...] = np.where(unseen, np.inf, scale)
        self._rows["demonstrated"] = np.concatenate([self._vectors(episode) for episode in episodes])
        self._rows["terminated"] = np.concatenate([episode["terminated"] for episode in episodes])
        return {}

    def discount(self) -> float:
        """Return the discount that determines the value of absorbing states."""
        return self.config.discount

    def __call__(self, batch: Batch) -> Floats:
        """Return the rewards (n,) of n rows."""
        gamma = self.config.discount
        absorbed = gamma / (1 - gamma) * self._logits(self._absorbing)
        rewards: Floats = self._logits(self._vectors(batch)) + batch["terminated"] * absorbed
        return rewards

    def update(self, experience: Experience) -> Metrics:
        """Learn to distinguish the policy's rows from demonstrated rows, every ``interval`` calls.

        Returns:
            ``loss``, the cross-entropy, and ``penalty``, both averaged over the steps; ``demonstrated`` and ``policy``,
            the mean logits of the last rows of each side.
        """
        config = self.config
        if not self._is_due(config.interval, len(experience) >= config.learning_starts):
            return {}
        half, collected = config.batch_size // 2, []
        for step in range(config.updates):
            rng = generator(self._seed, "update", self.version, step)
            indices = rng.integers(0, len(self._rows["demonstrated"]), half)
            demonstrated = self._with_absorbing(self._rows["demonstrated"][indices], self._rows["terminated"][indices])
            rows = experience.sample_rows(half, rng)
            policy_inputs = self._with_absorbing(self._vectors(rows), rows["terminated"])
            entropy, penalty = (
                self._cross_entropy(demonstrated, policy_inputs, half),
                self._penalty(demonstrated, policy_inputs, half, rng),
            )
            self._network.descend(entropy + config.penalty * penalty)
            collected.append((float(entropy.detach()), float(penalty.detach())))
        self.version += 1
        loss, penalised = np.mean(collected, axis=0).tolist()
        return {
            "loss": loss,
            "penalty": penalised,
            "demonstrated": float(self._logits(demonstrated).mean()),
            "policy": float(self._logits(policy_inputs).mean()),
        }

    def _cross_entropy(self, demonstrated: Floats, policy: Floats, rows: int) -> Tensor:
        """Return the loss of demonstrated (n, P) and policy (m, P) inputs, from ``rows`` rows on each side."""
        logits = self._network(torch.from_numpy(np.concatenate((demonstrated, policy))))[:, 0]
        # Divided by the number of rows rather than inputs, because the number of absorbing inputs is random.
        return (softplus(-logits[: len(demonstrated)]).sum() + softplus(logits[len(demonstrated) :]).sum()) / rows

    def _penalty(self, demonstrated: Floats, policy: Floats, points: int, rng: np.random.Generator) -> Tensor:
        """Return the Lipschitz penalty at ``points`` points between demonstrated (n, P) and policy (m, P) inputs."""
        first, second = (torch.from_numpy(side[rng.integers(0, len(side), points)]) for side in (demonstrated, policy))
        shares = torch.from_numpy(rng.uniform(size=(points, 2)).astype(np.float32))
        part = torch.repeat_interleave(torch.tensor([0, 1, 0]), torch.tensor([*self._parts, 1]))
        share = shares[:, part]
        between = (share * first + (1 - share) * second).requires_grad_()
        (gradient,) = torch.autograd.grad(self._network(between).sum(), between, create_graph=True)
        # The square root has no derivative at 0, and inputs that activate no unit have a gradient of 0.
        norm = (gradient.square().sum(1) + 1e-12).sqrt()
        return (norm - 1).clamp(min=0).square().mean()

    def _vectors(self, batch: Batch) -> Floats:
        """Return the inputs (n, P) of n rows: both parts of each, and the indicator, which is 0."""
        before = self._scaled(self._input(batch, "observation"))
        second = batch["action"] if self.config.actions else self._scaled(self._input(batch))
        indicator = np.zeros((len(before), 1), dtype=np.float32)
        return np.concatenate((before, second, indicator), axis=1, dtype=np.float32)

    def _with_absorbing(self, vectors: Floats, terminated: NDArray[np.bool_]) -> Floats:
        """Return inputs (n, P), followed by one absorbing input for each row that terminated."""
        return np.concatenate((vectors, self._absorbing.repeat(int(terminated.sum()), axis=0)))

    @torch.no_grad()
    def _logits(self, inputs: Floats) -> Floats:
        logits: Floats = self._network(torch.from_numpy(inputs))[:, 0].numpy()
        return logits
