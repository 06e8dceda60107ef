"""Behaviour cloning of the actor: a baseline, and an initialisation for reinforcement learning."""

import math
from typing import cast

import torch
from torch import Tensor

from robo_rl.core import Batch, DivergenceError, Metrics

from . import native
from .adam import TrainState, adam_step, bias_corrections
from .networks import Parameters
from .policy import TanhGaussianPolicy


class BehaviourCloning:
    """Regression of the policy's deterministic action, tanh of the mean, on the actions that demonstrators
    proposed, without the noise that was added to them.

    The loss is the squared error. A likelihood would also shrink the deviation to that of the demonstrations, almost
    zero for a scripted expert, so that reinforcement learning would start without exploration.

    Attributes:
        implementation: which implementation computes the steps: ``native`` or ``torch``.

    Args:
        policy: policy to train in place.
        learning_rate: learning rate of Adam.
        implementation: as in SACConfig; ``auto`` and ``native`` are native where possible, the others use PyTorch.
    """

    def __init__(self, policy: TanhGaussianPolicy, learning_rate: float, implementation: str = "auto") -> None:
        self._policy = policy
        self._learning_rate = learning_rate
        uses_images = policy.input_size != policy.observations.size
        is_supported = policy.device.type == "cpu" and not uses_images
        self.implementation = (
            "native"
            if implementation in ("auto", "native") and is_supported and native.available("float32")[0]
            else "torch"
        )
        self._native: native.NativeCloning | None = None
        self._state = TrainState.of(policy.parameters)
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
        self._steps += 1
        value = (self._native_step if self.implementation == "native" else self._torch_step)(batch)
        if not math.isfinite(value):
            raise DivergenceError(
                f"behaviour cloning diverged: bc_loss is {value} at step {self.steps}. "
                "Look for values that are not finite in the demonstrations, or lower the actor's learning rate."
            )
        self._policy.average(1.0)
        return {"bc_loss": value}

    def _native_step(self, batch: Batch) -> float:
        rows = len(batch["proposed_action"])
        if self._native is None or self._native.rows != rows:
            policy, rate = self._policy, self._learning_rate
            self._native = native.NativeCloning(policy.config, self._state, learning_rate=rate, rows=rows)
        observation = torch.from_numpy(self._policy.observations.rows(batch))
        return self._native(observation, torch.from_numpy(batch["proposed_action"]), self.steps)

    def _torch_step(self, batch: Batch) -> float:
        distribution = self._policy.distribution(batch)
        action = torch.from_numpy(batch["proposed_action"]).to(self._policy.device)

        def loss(actor: Parameters) -> Tensor:
            mean, _ = distribution(actor)
            return (mean.tanh() - action).square().mean()

        gradients, error = torch.func.grad_and_value(loss)(self._state.parameters)
        value = float(error)
        if math.isfinite(value):
            named_gradients = cast(Parameters, gradients)
            adam_step(self._state, named_gradients, self._learning_rate, bias_corrections(self.steps))
        return value

    def slots(self) -> dict[str, Tensor]:
        """Return the optimiser's tensors."""
        return self._state.moments("cloning") | {"cloning_steps": self._steps}
