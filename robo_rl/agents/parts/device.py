"""The device on which learning is computed: the CPU, or a GPU that receives whole updates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from robo_rl.core import ConfigError

WARM_UP = 3
"""Passes before a capture: in the first ones, libraries choose their kernels and allocate their workspaces."""


def choose_device(option: str) -> torch.device:
    """Return the device that ``agent.device`` names: ``cpu``, ``cuda`` or ``cuda:<n>``; for ``auto`` a GPU, if any.

    Raises:
        ConfigError: if the device does not exist.
    """
    if option == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(option)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"agent.device={option}: PyTorch finds {torch.cuda.device_count()} GPUs here (robo-rl doctor gives the "
            "reason). Use agent.device=cpu, or auto"
        )
    return device


class CapturedFunction:
    """A function of tensors whose work on the GPU is recorded once, as a CUDA graph, and then launched as a whole.

    One launch replaces thousands: an update of small networks is limited by launches, not by arithmetic.

    Args:
        function: function of structures of tensors that works in place on ``changed``. It must not involve the host:
            values that differ between calls are tensor arguments, and nothing is read back.
        changed: all tensors that ``function`` changes. Their memory must not move.
    """

    def __init__(self, function: Callable[..., Tensor], changed: Sequence[Tensor]) -> None:
        self._function = function
        self._changed = changed
        self._device = changed[0].device
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *arguments: Any) -> Tensor:
        """Return the function's result for tensors on any device, with the shapes of the first call.

        The result is overwritten by the next call.
        """
        if self._graph is None:
            self._arguments = map_tensors(lambda x: torch.empty_like(x, device=self._device), arguments)
            self._locked = map_tensors(self._page_locked, arguments)
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()  # the copies of the previous call are complete
            arguments = map_tensors(
                lambda x, source: x.copy_(source) if x.is_pinned() else source, self._locked, arguments
            )
        map_tensors(lambda static, source: static.copy_(source, non_blocking=True), self._arguments, arguments)
        if self._graph is None:
            self._graph = self._capture()
        self._graph.replay()
        return self._result

    def _page_locked(self, source: Tensor) -> Tensor:
        """Return page-locked memory like ``source``, from which the GPU copies several times as fast; or ``source``."""
        on_host = source.device.type == "cpu" and self._device.type == "cuda"
        return torch.empty_like(source, pin_memory=True) if on_host else source

    def _capture(self) -> torch.cuda.CUDAGraph:
        saved = [tensor.clone() for tensor in self._changed]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):  # a graph is captured on the current device
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    self._function(*self._arguments)
            torch.cuda.current_stream().wait_stream(stream)
            for tensor, value in zip(self._changed, saved, strict=True):
                tensor.copy_(value)
            with torch.cuda.graph(graph):
                self._result = self._function(*self._arguments)
        return graph


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` compiled by torch.compile; its first call takes 10 to 30 s, or seconds if cached."""
    # The processor reports its vector instructions. Otherwise PyTorch would compile and run a program for each kind to
    # test them, which takes a quarter of that time.
    return torch.compile(function, options={"cpp.vec_isa_ok": True})


def captured(function: Callable[..., Tensor], *changed: Mapping[str, Tensor]) -> Callable[..., Tensor]:
    """Return ``function``, as a :class:`CapturedFunction` if the tensors that it changes are on a GPU."""
    tensors = [tensor for named in changed for tensor in named.values()]
    return CapturedFunction(function, tensors) if tensors[0].is_cuda else function


def map_tensors(function: Callable[..., Tensor], *structures: Any) -> Any:
    """Return a structure like the first, of tuples, named tuples, lists and None, with the results of ``function``.

    ``function`` receives the tensors at the same position of each of ``structures``.
    """
    first = structures[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return function(*structures)
    parts = [map_tensors(function, *group) for group in zip(*structures, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
