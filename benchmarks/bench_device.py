"""Whole updates of an agent on one device: state, pixels, and features of a frozen network that a replay has cached.

    python benchmarks/bench_device.py --device cuda [--json FILE]

Each row is an agent as `robo-rl train` makes it, given Batches of numpy arrays as a replay gives them. With --jax RLPD
in JAX (rlpd_jax.py) is measured on the same device. With --json the file is written after each row, and a row that
cannot be measured says why, so that a run that is cut short loses nothing.

- first_s: from the making of the agent to its first update done, compilation and capture included.
- ms: median over updates, metrics read back each time. critic_updates_per_s: from it.
- copy_ms, pinned_copy_ms: what copying the arrays of one update to a GPU takes, from memory as numpy gives it and from
  page-locked memory.
- busy, kernels: share of the time in which a GPU computed, from the profiler's sum of kernels, and their number.
- share: operations of the matrix products, per second of the update, over what the device reaches with a product of
  8192 x 8192 matrices in the same precision (states only).
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from bench_pixels import VIEWS, random_resnet18
from made_up import spec_of
from safetensors.torch import save_file
from table_runs import make_parser, write_json
from update_problem import Problem

from robo_rl.agents.drq import DrQ, DrQConfig, EncoderConfig
from robo_rl.agents.parts.device import choose_device
from robo_rl.agents.sac import SAC, SACConfig
from robo_rl.core import ArraySpec, Batch, EnvSpec

OBSERVATION, ACTION = 40, 7
CAMERAS = ("images/front", "images/wrist")


def main() -> None:
    parser = make_parser(__doc__, "--json")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--image-size", type=int, default=128, help="height and width [pixels]")
    parser.add_argument(
        "--implementations", nargs="*", choices=["torch", "compile", "native"], default=["torch", "compile"]
    )
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rows", type=int, default=256, help="of a minibatch")
    parser.add_argument("--jax", action="store_true", help="measure RLPD in JAX too")
    options = parser.parse_args()
    device = choose_device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    result: dict[str, Any] = {"device": name, "torch": torch.__version__, "image_size": options.image_size}
    result["peak_tflop_per_s"] = peaks = {each: peak(device, each) for each in options.precisions}
    result["rows"] = rows = []
    print(", ".join(f"{key} {value:.4g} TFLOP/s" for key, value in peaks.items()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "resnet18.safetensors"
        save_file(random_resnet18(), file)
        frozen = EncoderConfig(checkpoint=str(file), head="spatial_embeddings", cached_views=VIEWS)
        for row, measure in plans(options, device, frozen):
            began = time.perf_counter()
            try:
                row |= measure()
            except Exception as error:  # the other rows are measured all the same
                row["failed"] = f"{type(error).__name__}: {error}"[:500]
            if "gflop" in row:
                row["share"] = row["gflop"] / row["ms"] / peaks[row["precision"]]
            row["whole_row_s"] = time.perf_counter() - began
            rows.append(row)
            print(
                *(f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items())
            )
            write_json(options.json, result)


Plan = tuple[dict[str, Any], Callable[[], dict[str, Any]]]


def plans(options: argparse.Namespace, device: torch.device, frozen: EncoderConfig) -> list[Plan]:
    """Return what tells each row apart, and what measures it; the agent of the last sees features of ``frozen``."""
    found: list[Plan] = []
    for implementation in options.implementations:
        for precision in options.precisions:
            common: dict[str, Any] = {
                "device": str(device),
                "implementation": implementation,
                "precision": precision,
                "batch_size": options.rows,
                "normalise_observations": False,
            }
            kinds: list[tuple[str, type[SAC], SACConfig, EnvSpec]] = []
            for critics in (10, 2):
                config = SACConfig(ensemble_size=critics, update_to_data=20, **common)
                kinds.append((f"state, {critics} critics", SAC, config, spec(None)))
            if implementation != "native":
                for name, encoder in (("pixels", EncoderConfig()), ("cached features", frozen)):
                    pixels = DrQConfig(update_to_data=1, encoder=encoder, **common)
                    kinds.append((f"{name}, two cameras", DrQ, pixels, spec(options.image_size)))
            for name, make, config, task in kinds:
                row = {"name": name, "implementation": implementation, "precision": precision}
                found.append((row, partial(measure_agent, make, config, task, options.updates)))
    if options.jax:
        for critics in (10, 2):
            row = {"name": f"state, {critics} critics", "implementation": "RLPD in JAX", "precision": "float32"}
            problem = Problem(critics=critics, observation=OBSERVATION, action=ACTION, batch=options.rows)
            found.append((row, partial(measure_jax, problem, device, options.updates)))
    return found


def spec(image_size: int | None) -> EnvSpec:
    """Return a task of the size of ours, with square images [pixels] or without."""
    images = {key: ArraySpec((image_size, image_size, 3), "uint8") for key in CAMERAS} if image_size else {}
    return spec_of({"state": ArraySpec((OBSERVATION,))} | images, ACTION)


def batch(rows: int, observation: Mapping[str, ArraySpec], seed: int) -> Batch:
    """Return random rows."""
    source = np.random.default_rng(seed)
    found = {
        "action": source.uniform(-1, 1, (rows, ACTION)),
        "proposed_action": source.uniform(-1, 1, (rows, ACTION)),
        "reward": source.random(rows),
        "discount": np.full(rows, 0.97),
        "demonstration": source.random(rows) < 0.5,
        "online_example": source.random(rows) < 0.1,
    }
    images = {}
    for group in ("observation", "next_observation"):
        for key, each in observation.items():
            if each.dtype == "uint8":
                images[f"{group}/{key}"] = source.integers(0, 256, (rows, *each.shape), "uint8")
            elif key in CAMERAS:
                images[f"{group}/{key}"] = source.random((rows, *each.shape), np.float32).astype(each.dtype)
            else:
                found[f"{group}/{key}"] = source.normal(size=(rows, *each.shape))
    return {key: array.astype(np.float32) for key, array in found.items()} | images


def measure_agent(make: type[SAC], config: SACConfig, task: EnvSpec, updates: int) -> dict[str, Any]:
    """Time ``updates`` updates of an agent."""
    began = time.perf_counter()
    agent = make(config, task, 0)
    made = time.perf_counter() - began
    features = {} if agent.features is None else agent.features.spec
    rows = config.update_to_data * config.batch_size
    batches = [batch(rows, {**task.observation, **features}, seed) for seed in range(4)]
    row = timed([partial(agent.update, each) for each in batches], updates, config.update_to_data)
    row["first_s"] += made
    if make is SAC:
        sizes: dict[str, Any] = {"hidden": config.hidden, "batch": config.batch_size, "updates": config.update_to_data}
        problem = Problem(critics=config.ensemble_size, observation=OBSERVATION, action=ACTION, **sizes)
        row["gflop"] = problem.operations / 1e9
    if config.device != "cpu":
        row |= {
            "copy_ms": copy_ms(batches, config.device, False),
            "pinned_copy_ms": copy_ms(batches, config.device, True),
        }
        row |= busy(agent, batches)
    return row


def measure_jax(problem: Problem, device: torch.device, updates: int) -> dict[str, Any]:
    """Time ``updates`` iterations of RLPD in JAX.

    Raises:
        RuntimeError: if JAX computes on another device.
    """
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # PyTorch needs memory of this device too
    import jax
    from rlpd_jax import RLPD, sample_rows
    from update_implementations import made_up_rows

    if (found := jax.devices()[0].platform) != ("gpu" if device.type == "cuda" else "cpu"):
        raise RuntimeError(f"JAX computes on {found}, PyTorch on {device.type}")
    learner = RLPD(problem.observation, problem.action, problem.hidden, problem.critics, problem.subset)
    stores = [made_up_rows(problem, 5_000) for _ in range(2)]
    rng = np.random.default_rng(0)
    drawn = [sample_rows(stores, rng, problem.updates, problem.batch) for _ in range(4)]
    row = timed([partial(learner.update, each) for each in drawn], updates, problem.updates)
    return row | {"jax": jax.__version__, "gflop": problem.operations / 1e9}


def timed(calls: list[Callable[[], object]], updates: int, critic_updates: int) -> dict[str, Any]:
    """Return what the first of ``calls`` takes, and the median of ``updates`` of them in turn."""
    began = time.perf_counter()
    calls[0]()
    first = time.perf_counter() - began
    seconds = []
    for k in range(updates):
        began = time.perf_counter()
        calls[k % len(calls)]()
        seconds.append(time.perf_counter() - began)
    return {
        "first_s": first,
        "ms": 1e3 * median(seconds),
        "ms_quartiles": [1e3 * float(value) for value in np.quantile(seconds, (0.25, 0.75))],
        "critic_updates_per_s": critic_updates / median(seconds),
    }


def copy_ms(batches: list[Batch], device: str, pinned: bool) -> float:
    """Return the median time of copying the arrays of an update to a GPU [ms]."""
    sources = [[torch.from_numpy(array) for array in each.values()] for each in batches]
    if pinned:
        sources = [[tensor.pin_memory() for tensor in each] for each in sources]
    targets = [torch.empty_like(tensor, device=device) for tensor in sources[0]]
    seconds = []
    for k in range(20):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for target, source in zip(targets, sources[k % len(sources)], strict=True):
            target.copy_(source, non_blocking=pinned)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return 1e3 * median(seconds)


def busy(agent: SAC, batches: list[Batch]) -> dict[str, Any]:
    """Return the share of the time of some updates in which kernels ran, and how many an update has."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        began = time.perf_counter()
        for rows in batches:
            agent.update(rows)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    events = [event for event in profile.key_averages() if not event.key.startswith("Mem")]
    total = 1e-6 * sum(event.self_device_time_total for event in events)
    return {
        "busy": total / seconds,
        "kernel_ms": 1e3 * total / len(batches),
        "kernels": sum(event.count for event in events) // len(batches),
        "memory_mb": torch.cuda.max_memory_allocated() / 1e6,
    }


def peak(device: torch.device, precision: str) -> float:
    """Return what the device reaches with products of large matrices [TFLOP/s]."""
    size = 8192 if device.type == "cuda" else 1024
    dtype = getattr(torch, precision)
    first, second = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(8):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        first @ second
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / min(seconds) / 1e12


if __name__ == "__main__":
    main()
