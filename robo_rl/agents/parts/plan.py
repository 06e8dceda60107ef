"""What a policy of action chunks has decided and not done yet."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class ActionPlan:
    """The actions of one chunk, to be taken one after the other without another look (open loop).

    Args:
        length: of a chunk h, in control steps.
        size: elements A of an action.
    """

    def __init__(self, length: int, size: int) -> None:
        self._actions = np.zeros((length, size), np.float32)
        self._left = np.zeros((), np.int64)

    @property
    def left(self) -> int:
        """How many actions were not taken yet."""
        return int(self._left)

    def follow(self, chunk: NDArray[np.float32]) -> None:
        """Begin with another ``chunk`` (h A,)."""
        self._actions[...] = chunk.reshape(self._actions.shape)
        self._left[...] = len(self._actions)

    def next(self) -> NDArray[np.float32]:
        """Take the next action (A,); there has to be one left."""
        action: NDArray[np.float32] = self._actions[-self.left].copy()
        self._left -= 1
        return action

    def forget(self) -> None:
        """Leave the rest of the chunk."""
        self._left[...] = 0

    def slots(self) -> dict[str, Tensor]:
        """Return the tensors that say what is left, which share their memory with it."""
        return {"actions": torch.from_numpy(self._actions), "left": torch.from_numpy(self._left)}
