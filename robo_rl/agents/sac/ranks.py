"""The update, computed by all processes that torchrun started, as DistributedDataParallel does for modules.

Rank 0 runs the training. It gives each rank, itself included, an equal share of the rows of every minibatch, and the
randomness for these rows. Gradients are means over rows, so their mean over ranks is the gradient of the whole
minibatch: all ranks take the same steps as a single process would.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from robo_rl.core import ConfigError, RankError, require

from ..parts.adam import TrainState
from ..parts.networks import Parameters
from ..parts.reference import ReferenceRows
from .config import SACConfig
from .update import METRICS, Minibatches, Noise, TorchUpdate

TIMEOUT = timedelta(days=1)
"""Longest wait of a rank for the next update: a run may be paused, and robots are slow. A crash is noticed at once."""

CHECK_INTERVAL = 100
"""Updates between checks that all ranks hold the same parameters."""

_END, _UPDATE, _SYNCHRONISE = range(3)


def several_ranks() -> bool:
    """Return whether this process is one of several that compute updates together."""
    return dist.is_initialized() and dist.get_world_size() > 1


def end_ranks() -> None:
    """End :meth:`RankedUpdate.follow` on the other ranks, from rank 0; ignore ranks that are already gone."""
    with contextlib.suppress(RankError):
        _send_order(_END)


class RankedUpdate:
    """A :class:`.TorchUpdate` on rank 0 whose work the other ranks share by :meth:`follow`.

    Args:
        config: configuration of the agent; it must be the same on all ranks.
        state: tensors of all networks; the values of rank 0 are used.

    Attributes:
        is_spread: whether the other ranks hold the values of rank 0; if not, they copy them before the next update.

    Raises:
        ConfigError: if minibatches cannot be divided equally, or the configuration requests another implementation.
    """

    def __init__(self, config: SACConfig, state: TrainState) -> None:
        self._ranks = dist.get_world_size()
        if config.implementation in ("native", "compile"):
            raise ConfigError(
                f"agent.implementation={config.implementation} computes in one process. Use agent.implementation=auto"
            )
        expected = "fixed if several processes compute the update"
        require(config.exploration == "fixed", "agent.exploration", expected, config.exploration)
        expected = "0 if several processes compute the update"
        require(config.reference_weight == 0, "agent.reference_weight", expected, config.reference_weight)
        is_divisible = config.batch_size % self._ranks == 0
        require(is_divisible, "agent.batch_size", f"a multiple of the {self._ranks} ranks", config.batch_size)
        self._config = config
        self._parameters = state.parameters
        self._tensors = [tensor for tensors in state for tensor in tensors.values()]
        self._compute = TorchUpdate(config, state, average=_average)
        self.is_spread = False

    @property
    def description(self) -> str:
        """A description for operators."""
        return f"torch, {self._ranks} ranks on {self._tensors[0].device.type}"

    @torch.no_grad()
    def __call__(
        self, batch: Minibatches, noise: Noise, updates: int, reference: ReferenceRows | None = None
    ) -> Tensor:
        """Do one whole update, with all ranks; see :meth:`.TorchUpdate.__call__`. There is no ``reference``.

        Raises:
            RankError: if another rank is gone or holds different parameters. Parameters and moments then have the
                values that they had before the update.
        """
        saved = [tensor.clone() for tensor in self._tensors]
        try:
            if not self.is_spread:
                _send_order(_SYNCHRONISE)
                self._synchronise()
                self.is_spread = True
            _send_order(_UPDATE, updates)
            return self._compute_share(batch, noise, updates)
        except RankError:
            for tensor, value in zip(self._tensors, saved, strict=True):
                tensor.copy_(value)
            raise

    @torch.no_grad()
    def follow(self) -> None:
        """Take part in all updates of rank 0 until it ends.

        Raises:
            RankError: if another rank is gone or holds different parameters.
        """
        while True:
            order, updates = _receive_order()
            if order == _END:
                return
            if order == _SYNCHRONISE:
                self._synchronise()
            else:
                self._compute_share(None, None, updates)

    def _synchronise(self) -> None:
        for tensor in self._tensors:
            with _communication():
                dist.broadcast(tensor, 0)

    def _compute_share(self, batch: Minibatches | None, noise: Noise | None, updates: int) -> Tensor:
        """Return the metrics of an update; compute this rank's share. Rank 0 passes ``batch`` and ``noise``."""
        config = self._config
        lead = config.update_to_data, config.batch_size // self._ranks
        like = self._parameters["actor/output/bias"]
        observation = self._parameters["actor/0/weight"].shape[-2]
        action = like.shape[-1] // 2
        widths = {"observation": (observation,), "next_observation": (observation,)}
        widths |= {"action": (action,), "proposed_action": (action,)}
        share = Minibatches(
            *(
                _scatter(like.new_empty(*lead, *widths.get(name, ())), None if batch is None else getattr(batch, name))
                for name in Minibatches._fields
            )
        )
        next_action = _scatter(like.new_empty(*lead, action), noise and noise.next_action)
        subset = like.new_empty((lead[0], config.target_subset), dtype=torch.int64)
        if noise is not None:
            subset.copy_(noise.subset)
        with _communication():
            dist.broadcast(subset, 0)
        last = _scatter(like.new_empty(1, lead[1], action), noise and noise.action.unsqueeze(0))
        metrics = self._compute(share, Noise(next_action, subset, last[0]), updates)
        if (updates + 1) % CHECK_INTERVAL == 0:
            self._check_equality(updates + 1)
        return _metrics_of_all(metrics)

    def _check_equality(self, update: int) -> None:
        """Compare the sums of the bits of all tensors.

        Raises:
            RankError: if they differ.
        """
        words = [tensor.reshape(-1).view(torch.int32).sum(dtype=torch.int64) for tensor in self._tensors]
        sums = torch.stack(words)
        extremes = torch.stack((sums, -sums))
        with _communication():
            dist.all_reduce(extremes, dist.ReduceOp.MAX)
        if not torch.equal(extremes[0], -extremes[1]):
            raise RankError(
                f"the ranks do not hold the same parameters after update {update}; continue from the newest "
                "checkpoint, on machines of one kind with the same PyTorch"
            )


def _send_order(order: int, updates: int = 0) -> None:
    with _communication():
        dist.broadcast(torch.tensor((order, updates)), 0)


def _receive_order() -> tuple[int, int]:
    words = torch.empty(2, dtype=torch.int64)
    with _communication():
        dist.broadcast(words, 0)
    order, updates = words.tolist()
    return order, updates


def _scatter(share: Tensor, whole: Tensor | None) -> Tensor:
    """Fill ``share`` (U, b, ...) with this rank's rows of rank 0's ``whole`` (U, B, ...)."""
    shares: Sequence[Tensor] | None = None
    if whole is not None:
        whole = whole.to(share.device)
        shares = [rows.contiguous() for rows in whole.chunk(dist.get_world_size(), dim=1)]
    with _communication():
        dist.scatter(share, None if shares is None else list(shares), 0)
    return share


def _average(values: Parameters) -> Parameters:
    """Return the means over all ranks, bitwise equal on each rank; send one message."""
    flat = torch.cat([value.reshape(-1) for value in values.values()])
    with _communication():
        dist.all_reduce(flat)
    flat /= dist.get_world_size()
    parts = torch.split(flat, [value.numel() for value in values.values()])
    return {name: part.view_as(values[name]) for name, part in zip(values, parts, strict=True)}


def _metrics_of_all(metrics: Tensor) -> Tensor:
    """Return the metrics of the whole minibatches from those of each rank's share."""
    largest = metrics[METRICS.index("q_abs_max")].clone()
    with _communication():
        dist.all_reduce(largest, dist.ReduceOp.MAX)
    mean = _average({"": metrics})[""]
    mean[METRICS.index("q_abs_max")] = largest
    return mean


@contextlib.contextmanager
def _communication() -> Iterator[None]:
    """Convert a failure of the communication to RankError."""
    try:
        yield
    except RuntimeError as error:
        raise RankError(
            f"another process of the learner is gone or does not answer ({str(error).splitlines()[0]}); what torchrun "
            "printed says why"
        ) from error
