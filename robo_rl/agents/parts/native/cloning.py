"""Behaviour cloning in C++."""

import ctypes

import torch
from torch import Tensor

from ..adam import TrainState
from ..policy import PolicyConfig
from .library import StoredTensors, library, made, pointer


class _CloningSettings(ctypes.Structure):
    """``CloningSettings`` of cloning.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("observation_size", "action_size", "batch", "threads")),
        ("learning_rate", ctypes.c_double),
    )


class NativeCloning:
    """Steps of :class:`..cloning.BehaviourCloning`: Adam on the mean squared error of the policy's mode, in float32.

    For requirements on tensors, threads and forks see :class:`NativeUpdate`.

    Args:
        config: configuration of the policy.
        state: ``actor/...`` and moments, trained in place.
        learning_rate: learning rate of Adam.
        rows: rows B of each batch.

    Raises:
        NativeBuildError: if :func:`available` is false.
        ValueError: see :class:`NativeUpdate`.
    """

    def __init__(
        self,
        config: PolicyConfig,
        state: TrainState,
        *,
        learning_rate: float,
        rows: int,
    ) -> None:
        self._handle: int | None = None
        self._library = library()
        self.rows = rows
        parameters = state.parameters
        self._action_size = parameters["actor/output/bias"].shape[0] // 2
        self._observation_size = parameters["actor/0/weight"].shape[0]
        settings = _CloningSettings(
            observation_size=self._observation_size,
            action_size=self._action_size,
            batch=rows,
            threads=torch.get_num_threads(),
            learning_rate=learning_rate,
        )
        self._tensors = list(StoredTensors(state).actor(self._observation_size, self._action_size, config))
        make = self._library.robo_rl_cloning_new
        self._handle = made(make, (ctypes.byref(settings),), config, self._tensors, "native behaviour cloning")

    def __call__(self, observation: Tensor, proposed_action: Tensor, count: int) -> float:
        """Take step number ``count``, starting at 1, unless the error is not finite; return the error before it.

        Args:
            observation: (B, O) float32, input of the network.
            proposed_action: (B, A) float32.
            count: number of the step.

        Raises:
            ValueError: if a tensor has a different shape or dtype or is not contiguous.
        """
        return float(
            self._library.robo_rl_cloning_run(
                self._handle,
                pointer("observation", observation, (self.rows, self._observation_size)),
                pointer("proposed_action", proposed_action, (self.rows, self._action_size)),
                count,
            )
        )

    def __del__(self) -> None:
        if self._handle:
            self._library.robo_rl_cloning_delete(self._handle)
            self._handle = None
