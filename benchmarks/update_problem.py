"""The problem that the implementations in bench_update.py solve, and the check of their results."""

import dataclasses
import itertools
import json
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Problem:
    """Sizes of an iteration: updates of the critics, then one of the actor and one of the temperature."""

    critics: int = 10
    observation: int = 40
    action: int = 7
    hidden: tuple[int, ...] = (256, 256)
    batch: int = 256
    updates: int = 20
    threads: int = 2
    transitions: int = 20_000
    demonstrations: int = 2_000

    @property
    def subset(self) -> int:
        """Critics whose smallest value is the target."""
        return min(2, self.critics)

    @property
    def parameters(self) -> dict[str, int]:
        """Numbers that each network must have, so that all implementations are of the same size."""

        def size(inputs: int, outputs: int, layer_norm: bool) -> int:
            widths = [inputs, *self.hidden, outputs]
            dense = sum((a + 1) * b for a, b in itertools.pairwise(widths))
            return dense + 2 * sum(self.hidden) * layer_norm

        critic = size(self.observation + self.action, 1, True)
        actor = size(self.observation, 2 * self.action, False)
        return {"critic": self.critics * critic, "actor": actor, "temperature": 1}

    @property
    def operations(self) -> float:
        """Floating-point operations of the matrix products of an iteration of ours, and nothing besides.

        Nothing is counted that a plain program would not do. A gradient costs twice the forward pass, less the
        gradient of the input of the first layer.
        """

        def forward(inputs: int, outputs: int) -> float:
            return sum(2.0 * a * b for a, b in itertools.pairwise([inputs, *self.hidden, outputs]))

        def first(inputs: int) -> float:
            return 2.0 * inputs * self.hidden[0]

        inputs = self.observation + self.action
        critic, actor = forward(inputs, 1), forward(self.observation, 2 * self.action)
        critic_step = actor + self.subset * critic + self.critics * (3 * critic - first(inputs))
        actor_step = 3 * actor - first(self.observation)
        actor_step += self.critics * (2 * critic - first(inputs) + first(self.action))
        return self.batch * (self.updates * critic_step + actor_step)

    def to_json(self) -> str:
        """Return what :meth:`from_json` takes."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Problem":
        """Return the problem that ``text`` describes."""
        fields = json.loads(text)
        return cls(**fields | {"hidden": tuple(fields["hidden"])})


class UnavailableError(Exception):
    """An implementation cannot be measured here; the message is what its row says."""


class Trained(NamedTuple):
    """A network now: its numbers in one array, and the steps that its optimiser has done, if it counts them."""

    values: NDArray[np.float32]
    steps: int | None


def check(problem: Problem, before: dict[str, Trained], after: dict[str, Trained], iterations: int) -> dict[str, float]:
    """Return the steps of each network in an iteration, of those that can be looked at: the actor at least.

    Raises:
        ValueError: if a network is not of the problem's size, not finite or has not moved, or if the critics did not
            do the updates of the problem.
    """
    if "actor" not in after:
        raise ValueError("actor: not shown")
    for name, (values, _) in after.items():
        size = problem.parameters[name]
        if values.size != size:
            raise ValueError(f"{name}: expected {size} parameters, got {values.size}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name}: not finite after {iterations} iterations")
        if np.array_equal(values, before[name].values):
            raise ValueError(f"{name}: did not change in {iterations - 1} iterations")
    if "critic" in after and after["critic"].steps != problem.updates * iterations:
        raise ValueError(f"critic: expected {problem.updates} steps an iteration, got {after['critic'].steps} in all")
    counted = {name: network.steps for name, network in after.items() if network.steps is not None}
    return {f"{name}_steps": steps / iterations for name, steps in counted.items()}
