"""Verification of a file that contains a policy: its decisions and their time compared with those of PyTorch."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from robo_rl.core import DataError, Decision, Observation, Policy, generator, importing_extra

from .c_policy import CPolicy, c_compiler
from .description import PolicyDescription

TOLERANCES = {"float32": 1e-5, "int8": 0.1}
"""Largest difference between an action of the file and that of PyTorch, by the type of the file's weights."""
_TIMED = 200
"""Largest number of decisions that are timed."""


@dataclass(frozen=True)
class Verification:
    """Outcome of :func:`verify`.

    Attributes:
        observations: number of random observations.
        difference: largest absolute difference of an element of an action.
        torch_microseconds: median processor time of a decision by PyTorch, with the conversion of observations [us].
        file_microseconds: the same by the file [us].
    """

    observations: int
    difference: float
    torch_microseconds: float
    file_microseconds: float


def verify(
    file: Path,
    policy: Policy,
    decision: Decision,
    description: PolicyDescription,
    observations: int,
    seed: int,
    weights: str = "float32",
) -> Verification | None:
    """Compare the decisions of a file with those of ``policy`` on random observations.

    Args:
        file: an ONNX file or a C header.
        policy: policy in PyTorch, just loaded: its generator of noise is in its initial state.
        decision: decision of ``policy``.
        description: description of ``policy``.
        observations: number of random observations.
        seed: seed of the observations.
        weights: type of the file's weights, a key of :data:`TOLERANCES`.

    Returns:
        The outcome; None for a C header if there is no compiler.

    Raises:
        DataError: if an action differs by more than the tolerance, or the file cannot be used.
    """
    rng = generator(seed, "deploy")
    drawn = [decision.example(rng) for _ in range(observations)]

    def act(observation: Observation) -> NDArray[np.float32]:
        policy.forget_plan(explore=False)
        chunk = [policy.act(observation, explore=False) for _ in range(description.action_chunk)]
        return np.stack(chunk)

    noise = torch.Generator().manual_seed(description.noise_seed)
    rows = np.stack([torch.randn(description.noise_size, generator=noise).numpy() for _ in drawn])
    expected = np.stack([act(observation) for observation in drawn])
    if file.suffix == ".h":
        if (compiler := c_compiler()) is None:
            return None
        compiled = CPolicy(file, description, compiler)
        stacked = {key: np.stack([each[key] for each in drawn]) for key in description.observed}
        decisions = compiled.decide_all(stacked, rows)
        seconds = median_time([lambda: compiled.decide_all(stacked, rows)] * 5) / observations
    else:
        with importing_extra("deploy", "ONNX files need the packages onnx and onnxruntime"):
            from .onnx_policy import OnnxPolicy
        deployed = OnnxPolicy.load(file)
        decisions = np.stack([deployed.decide(observation) for observation in drawn])
        seconds = median_time([partial(deployed.decide, each) for each in drawn[:_TIMED]])
    difference = float(np.abs(decisions - expected).max())
    tolerance = TOLERANCES[weights]
    if not difference <= tolerance:
        raise DataError(
            f"{file.name} was not written: its actions differ from those of PyTorch by {difference:.2g}, more than "
            f"{tolerance:g}, on {observations} random observations"
        )
    reference = median_time([partial(act, each) for each in drawn[:_TIMED]])
    return Verification(observations, difference, 1e6 * reference, 1e6 * seconds)


def median_time(calls: Sequence[Callable[[], object]]) -> float:
    """Return the median processor time of the calls in this thread [s]; waiting for the processor does not count."""
    times = []
    for call in calls:
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return float(np.median(times))
