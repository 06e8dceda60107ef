"""A learned feasibility value: from which states a constraint can be kept indefinitely (FISOR, Zheng et al. 2024).

Let h(s) be positive if the state s violates the constraint. Otherwise h(s) is negative, and its magnitude is the margin
to a violation. Reachability analysis computes the largest h along the way under the best actions:

    Q(s, a) = (1 - gamma) h(s') + gamma max(h(s'), V(s')),    V(s) = the smallest Q(s, a) over actions in the data.

The constraint can be kept from s on if V(s) is 0 or less. V is a low expectile of Q, so that no action outside the data
is evaluated. The paper's h is 25 or -1; here it is a robustness, whose sign has the same meaning and whose size carries
more information.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robo_rl.core import DataError, Options, claim_parameters, option, require

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FeasibilityConfig(Options, section="learning"):
    """Options for learning a feasibility value.

    Attributes:
        hidden: units of the hidden layers.
        steps: number of gradient steps.
        batch_size: number of transitions in each gradient step.
        learning_rate: learning rate of Adam.
        gamma: discount; near 1, the distant future counts in full.
        expectile: share of the weight on values above V, below one half; the smaller, the closer V is to the best
            action's value.
        target_rate: coefficient of the soft update of the copy of V from which Q is learned.
        seed: seed of initial weights and batches.
    """

    hidden: tuple[int, ...] = (64, 64)
    steps: int = option(3000, low=1)
    batch_size: int = option(256, low=1)
    learning_rate: float = option(1e-3, above=0)
    gamma: float = option(0.99, above=0, below=1)
    expectile: float = option(0.02, above=0, below=0.5)
    target_rate: float = option(0.02, above=0, high=1)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.hidden) and min(self.hidden) >= 1, "learning.hidden", "one or more sizes", self.hidden)


class FeasibilityModel:
    """V and Q of states (n, S), learned in units of ``scale``.

    Args:
        states: number S of elements of a state.
        actions: number A of elements of an action.
        hidden: units of the hidden layers.
        seed: seed of the initial weights.
    """

    def __init__(self, states: int, actions: int, hidden: tuple[int, ...], seed: int = 0) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._make_networks(states, actions, hidden)
        self._mean, self._deviation = torch.zeros(states), torch.ones(states)
        self._scale = torch.ones(())

    def _make_networks(self, states: int, actions: int, hidden: tuple[int, ...]) -> None:
        self._value, self._slow = _network(states, hidden), _network(states, hidden)
        self._quality = _network(states + actions, hidden)

    def fit(
        self, states: Floats, actions: Floats, next_states: Floats, h: Floats, ended: NDArray[np.bool_],
        config: FeasibilityConfig,
    ) -> None:  # fmt: skip
        """Learn from transitions.

        Args:
            states: (n, S).
            actions: (n, A).
            next_states: (n, S).
            h: values of h of the next states (n,), above 0 if the constraint is violated.
            ended: whether the next state is the last one (n,).
            config: options of the training.

        Raises:
            DataError: if a number is not finite, or the value diverges.
        """
        inputs = {"states": states, "actions": actions, "next states": next_states, "constraint": h}
        if infinite := _not_finite(inputs):
            raise DataError(f"the data hold numbers that are not finite, in {infinite}: leave those episodes out")
        rng = torch.Generator().manual_seed(config.seed)
        self._mean, self._deviation = (torch.from_numpy(array) for array in (states.mean(0), states.std(0) + 1e-6))
        self._scale = torch.tensor(float(np.abs(h).mean()) + 1e-6)
        before, after = (self._normalised(array) for array in (states, next_states))
        acts, cost = torch.from_numpy(actions), torch.from_numpy(h) / self._scale
        goes_on = torch.from_numpy(~ended)
        self._slow.load_state_dict(self._value.state_dict())
        parameters = [*self._value.parameters(), *self._quality.parameters()]
        optimiser = torch.optim.Adam(parameters, config.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.steps)
        for _ in range(config.steps):
            rows = torch.randint(len(before), (config.batch_size,), generator=rng)
            with torch.no_grad():
                ahead = torch.maximum(cost[rows], self._slow(after[rows])[:, 0])
                discounted = (1 - config.gamma) * cost[rows] + config.gamma * ahead
                target = torch.where(goes_on[rows], discounted, cost[rows])
            both = torch.cat([before[rows], acts[rows]], 1)
            quality = self._quality(both)[:, 0]
            above = quality.detach() - self._value(before[rows])[:, 0]
            weight = torch.where(above > 0, config.expectile, 1 - config.expectile)
            loss = (quality - target).square().mean() + (weight * above.square()).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                for slow, fast in zip(self._slow.parameters(), self._value.parameters(), strict=True):
                    slow.lerp_(fast, config.target_rate)
        if _not_finite(self.state()):
            raise DataError("the value has diverged: use a smaller learning.learning_rate")

    @torch.no_grad()
    def value(self, states: Floats) -> Floats:
        """Return V (n,) of states (n, S): 0 or less if the constraint can be kept."""
        return cast(Floats, (self._scale * self._value(self._normalised(states))[:, 0]).numpy())

    @torch.no_grad()
    def quality(self, state: Floats, actions: Floats) -> Floats:
        """Return Q (n,) of actions (n, A) in one state (S,)."""
        repeated = self._normalised(state[None]).expand(len(actions), -1)
        both = torch.cat([repeated, torch.from_numpy(actions)], 1)
        return cast(Floats, (self._scale * self._quality(both)[:, 0]).numpy())

    def state(self) -> dict[str, Floats]:
        """Return all numbers by name."""
        networks = {"value": self._value, "quality": self._quality}
        numbers = {"mean": self._mean, "deviation": self._deviation, "scale": self._scale}
        for name, network in networks.items():
            numbers |= {f"{name}.{key}": value for key, value in network.state_dict().items()}
        return {key: value.numpy() for key, value in numbers.items()}

    def load(self, state: Mapping[str, Floats]) -> None:
        """Restore a state from :meth:`state`.

        Raises:
            DataError: if names or shapes do not match this model, or a number is not finite.
        """
        own = self.state()
        if {key: value.shape for key, value in own.items()} != {key: value.shape for key, value in state.items()}:
            raise DataError("its numbers are not those of a feasibility model for these observations and actions")
        if infinite := _not_finite(state):
            raise DataError(f"its numbers are not finite, in {infinite}: learn it anew")
        tensors = {key: torch.from_numpy(np.array(value)) for key, value in state.items()}
        self._mean, self._deviation, self._scale = (tensors[key] for key in ("mean", "deviation", "scale"))
        for name, network in (("value.", self._value), ("quality.", self._quality)):
            part = {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}
            network.load_state_dict(part)

    def _normalised(self, states: Floats) -> Tensor:
        return (torch.from_numpy(states) - self._mean) / self._deviation


def _not_finite(numbers: Mapping[str, Floats]) -> str:
    """Return the names of arrays that contain numbers that are not finite."""
    return ", ".join(name for name, array in numbers.items() if not np.isfinite(array).all())


def _network(inputs: int, hidden: tuple[int, ...]) -> nn.Sequential:
    sizes = (inputs, *hidden)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        claim_parameters(before * after, "feasibility")
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 1))
