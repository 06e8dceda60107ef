"""Whole updates in C++."""

import ctypes
from collections.abc import Iterator

import torch
from torch import Tensor

from ...core import NativeBuildError
from ..parts.adam import TrainState
from ..parts.native.library import StoredTensors, available, library, made, pointer
from ..parts.reference import ReferenceRows
from .config import SACConfig
from .update import METRICS, Minibatches, Noise


class _Settings(ctypes.Structure):
    """``Settings`` of update.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("observation_size", "action_size", "ensemble", "subset", "batch")),
        *((name, ctypes.c_int32) for name in ("updates", "threads", "entropy_backup", "actor_minimum")),
        *((name, ctypes.c_double) for name in ("actor_learning_rate", "critic_learning_rate")),
        *((name, ctypes.c_double) for name in ("temperature_learning_rate", "tau", "target_entropy")),
    )


class _Inputs(ctypes.Structure):
    """``Inputs`` of update.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("observation", "action", "reward", "discount", "next_observation")),
        *((name, ctypes.c_void_p) for name in ("next_noise", "subset", "actor_noise", "cloning", "proposed_action")),
        *((name, ctypes.c_void_p) for name in ("reference_mean", "reference_log_std")),
        ("reference_weight", ctypes.c_float),
    )


class NativeUpdate:
    """An update in C++ with the arguments and the result of :class:`..update.TorchUpdate`; see there.

    The tensors' memory must not move while this object is in use: change values in place. The object uses as many
    threads as PyTorch. They do not survive a fork: make the object in the process that uses it.

    Raises:
        NativeBuildError: if :func:`available` is false.
        ValueError: if a tensor is not a contiguous float32 tensor on the CPU with the shape that the config implies.
    """

    def __init__(self, config: SACConfig, state: TrainState) -> None:
        self._handle: int | None = None
        self._library = library()
        self._config = config
        parameters = state.parameters
        self._action_size = parameters["actor/output/bias"].shape[0] // 2
        self._observation_size = parameters["actor/0/weight"].shape[0]
        settings = _Settings(
            observation_size=self._observation_size,
            action_size=self._action_size,
            ensemble=config.ensemble_size,
            subset=config.target_subset,
            batch=config.batch_size,
            updates=config.update_to_data,
            threads=torch.get_num_threads(),
            entropy_backup=config.entropy_backup,
            actor_minimum=config.actor_q == "min",
            actor_learning_rate=config.actor_learning_rate,
            critic_learning_rate=config.critic_learning_rate,
            temperature_learning_rate=config.temperature_learning_rate,
            tau=config.tau,
            target_entropy=-0.5 * self._action_size if config.target_entropy is None else config.target_entropy,
        )
        is_available, reason = available(config.precision)
        if not is_available:
            raise NativeBuildError(reason)
        # A reference, so that the memory lives as long as the pointers to it.
        self._tensors = list(self._stored_tensors(StoredTensors(state)))
        self._handle = made(
            self._library.robo_rl_update_new,
            (ctypes.byref(settings), ctypes.c_int(config.precision == "bfloat16")),
            config,
            self._tensors,
            "the native update",
        )

    def __call__(
        self, batch: Minibatches, noise: Noise, updates: int, reference: ReferenceRows | None = None
    ) -> Tensor:
        """Do one whole update; other Python threads can run meanwhile.

        Returns:
            (len(METRICS),) float32.

        Raises:
            ValueError: if a tensor has a different shape or dtype or is not contiguous.
        """
        config, o, a = self._config, self._observation_size, self._action_size
        u, b = config.update_to_data, config.batch_size
        inputs = _Inputs(
            observation=pointer("observation", batch.observation, (u, b, o)),
            action=pointer("action", batch.action, (u, b, a)),
            reward=pointer("reward", batch.reward, (u, b)),
            discount=pointer("discount", batch.discount, (u, b)),
            next_observation=pointer("next_observation", batch.next_observation, (u, b, o)),
            next_noise=pointer("noise.next_action", noise.next_action, (u, b, a)),
            subset=pointer("noise.subset", noise.subset, (u, config.target_subset), torch.int64),
            actor_noise=pointer("noise.action", noise.action, (b, a)),
            cloning=pointer("cloning", batch.cloning, (u, b)),
            proposed_action=pointer("proposed_action", batch.proposed_action, (u, b, a)),
        )
        if reference is not None:
            inputs.reference_mean = pointer("reference.mean", reference.mean, (b, a))
            inputs.reference_log_std = pointer("reference.log_std", reference.log_std, (b, a))
            inputs.reference_weight = float(reference.weight)
        if noise.subset.min() < 0 or noise.subset.max() >= config.ensemble_size:
            raise ValueError(f"noise.subset: expected indices below {config.ensemble_size}, got {noise.subset}")
        metrics = torch.empty(len(METRICS))
        actor_updates = updates - config.actor_delay  # negative: no step of the actor
        self._library.robo_rl_update_run(self._handle, ctypes.byref(inputs), updates, actor_updates, metrics.data_ptr())
        return metrics

    def __del__(self) -> None:
        if self._handle:
            self._library.robo_rl_update_delete(self._handle)
            self._handle = None

    def _stored_tensors(self, stored: StoredTensors) -> Iterator[Tensor | None]:
        """Yield value, moments and target of each parameter, in the order in which library.cpp reads them."""
        config, o, a = self._config, self._observation_size, self._action_size
        widths = (o + a, *config.hidden, 1)
        yield from stored.network("critic", widths, config.layer_norm, (config.ensemble_size,))
        yield from stored.actor(o, a, config)
        yield from stored.tensor("temperature/log_alpha", ())
