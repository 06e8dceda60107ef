"""The actions of a chunk that a policy has decided but not yet returned."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core import CheckpointError


class ActionPlan:
    """The actions of one chunk, to be executed one after another without another observation (open loop).

    Args:
        length: length h of a chunk, in control steps.
        size: elements A of an action.
    """

    def __init__(self, length: int, size: int) -> None:
        self._actions = np.zeros((length, size), np.float32)
        self._remaining = np.zeros((), np.int64)

    @property
    def left(self) -> int:
        """Number of remaining actions."""
        return int(self._remaining)

    def follow(self, chunk: NDArray[np.float32]) -> None:
        """Start another ``chunk`` (h A,)."""
        self._actions[...] = chunk.reshape(self._actions.shape)
        self._remaining[...] = len(self._actions)

    def next(self) -> NDArray[np.float32]:
        """Return the next action (A,) and remove it; at least one must remain."""
        action: NDArray[np.float32] = self._actions[-self.left].copy()
        self._remaining -= 1
        return action

    def forget(self) -> None:
        """Discard the rest of the chunk."""
        self._remaining[...] = 0

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors of the remaining actions, which share the memory of this object."""
        return {"actions": torch.from_numpy(self._actions), "left": torch.from_numpy(self._remaining)}


def check_plans(slots: Mapping[str, Tensor]) -> None:
    """Check plans after they were loaded.

    Args:
        slots: tensors of the plans, as :meth:`ActionPlan.slots` returns them, under names that end in the same.

    Raises:
        CheckpointError: if a chunk has more remaining actions than actions.
    """
    for name, left in slots.items():
        length = len(slots[f"{name.removesuffix('left')}actions"]) if name.endswith("left") else 0
        if name.endswith("left") and not 0 <= int(left) <= length:
            raise CheckpointError(
                f"the state holds {int(left)} remaining actions of a chunk of {length}; use another checkpoint"
            )
