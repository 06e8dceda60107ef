"""Behaviour cloning of the actor: a baseline by itself, and a start for reinforcement learning."""

from typing import cast

import torch
from torch import Tensor

from robo_rl.core import Batch, DivergenceError, Metrics

from .adam import adam_step, bias_corrections
from .networks import Parameters
from .policy import TanhGaussianPolicy
from .slots import prefixed


class BehaviourCloning:
    """Regression of the policy's deterministic action, tanh of the mean, on the actions that demonstrators
    proposed, free of the noise that was added to them.

    The loss is the squared error. A likelihood would also shrink the deviation to that of the demonstrations, almost
    nothing for a scripted expert, and leave reinforcement learning that starts from it without exploration.

    Args:
        policy: trained in place.
        learning_rate: of Adam.
    """

    def __init__(self, policy: TanhGaussianPolicy, learning_rate: float) -> None:
        self._policy = policy
        self._learning_rate = learning_rate
        self._first = {name: torch.zeros_like(tensor) for name, tensor in policy.parameters.items()}
        self._second = {name: torch.zeros_like(tensor) for name, tensor in policy.parameters.items()}
        self._steps = torch.zeros((), dtype=torch.int64)

    @property
    def steps(self) -> int:
        """Steps taken so far."""
        return int(self._steps)

    @torch.no_grad()
    def step(self, batch: Batch) -> Metrics:
        """Take one step of Adam on ``batch``; return ``bc_loss``, the mean squared error before it.

        Raises:
            DivergenceError: if the loss is not finite.
        """
        distribution = self._policy.distribution(batch)
        action = torch.from_numpy(batch["proposed_action"]).to(self._policy.device)

        def loss(actor: Parameters) -> Tensor:
            mean, _ = distribution(actor)
            return (mean.tanh() - action).square().mean()

        gradients, error = torch.func.grad_and_value(loss)(self._policy.parameters)
        self._steps += 1
        value = float(error)
        if not torch.isfinite(error):
            raise DivergenceError(
                f"behaviour cloning diverged: bc_loss is {value} at step {self.steps}. "
                "Look for values that are not finite in the demonstrations, or lower the actor's learning rate."
            )
        corrections = bias_corrections(self.steps)
        parameters = self._policy.parameters
        adam_step(parameters, cast(Parameters, gradients), self._first, self._second, self._learning_rate, corrections)
        self._policy.average(1.0)
        return {"bc_loss": value}

    def slots(self) -> dict[str, Tensor]:
        """Return the optimiser's tensors."""
        return (
            prefixed("cloning_first", self._first)
            | prefixed("cloning_second", self._second)
            | {"cloning_steps": self._steps}
        )
