"""Whole updates of an agent on one device: state, pixels, and features of a frozen network that a replay has cached.

    python tests/benchmarks/bench_device.py --device cuda [--json FILE]

Each row is an agent as `robo-rl train` makes it, given Batches of numpy arrays as a replay gives them. first s: from
the making of the agent to its first update done, compilation and capture included. ms: median over updates, metrics
read back each time. updates/s: critic updates. busy: share of the time that the device computed, from the profiler's
sum of kernels (GPU only).
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from bench_pixels import VIEWS, random_resnet18
from safetensors.torch import save_file

from robo_rl.agents.drq import DrQ, DrQConfig, EncoderConfig
from robo_rl.agents.sac import SAC, SACConfig
from robo_rl.core import ArraySpec, Batch, EnvSpec

OBSERVATION, ACTION = 40, 7
CAMERAS = ("images/front", "images/wrist")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--image-size", type=int, default=128, help="height and width [pixels]")
    parser.add_argument("--backends", nargs="+", choices=["torch", "compile", "native"], default=["torch", "compile"])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rows", type=int, default=256, help="of a minibatch")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "resnet18.safetensors"
        save_file(random_resnet18(), file)
        rows = measure_all(options, EncoderConfig(checkpoint=str(file), head="spatial_embeddings", cached_views=VIEWS))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    result = {"device": device, "torch": torch.__version__, "image_size": options.image_size, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def measure_all(options: argparse.Namespace, frozen: EncoderConfig) -> list[dict[str, Any]]:
    """Return a row for each agent, the last of which sees what the encoder ``frozen`` makes of images."""
    rows = []
    for backend in options.backends:
        for precision in options.precisions:
            common: dict[str, Any] = {
                "device": options.device,
                "backend": backend,
                "precision": precision,
                "batch_size": options.rows,
                "normalise_observations": False,
            }
            for critics in (10, 2):
                config = SACConfig(ensemble_size=critics, update_to_data=20, **common)
                rows.append(measure(f"state, {critics} critics", SAC, config, spec(None), options.updates))
            if backend != "native":
                task = spec(options.image_size)
                for name, encoder in (("pixels", EncoderConfig()), ("cached features", frozen)):
                    pixels = DrQConfig(update_to_data=1, encoder=encoder, **common)
                    rows.append(measure(f"{name}, two cameras", DrQ, pixels, task, options.updates))
    return rows


def spec(image_size: int | None) -> EnvSpec:
    """Return a task of the size of ours, with square images [pixels] or without."""
    images = {key: ArraySpec((image_size, image_size, 3), "uint8") for key in CAMERAS} if image_size else {}
    return EnvSpec(
        task="benchmark",
        observation={"state": ArraySpec((OBSERVATION,))} | images,
        action=ArraySpec((ACTION,), low=-1, high=1),
        action_space="joint_position",
        action_frame="joint",
        control_rate=10.0,
        max_episode_steps=None,
        reward_terms=("success",),
    )


def batch(rows: int, observation: Mapping[str, ArraySpec], seed: int) -> Batch:
    """Return random rows."""
    source = np.random.default_rng(seed)
    found = {
        "action": source.uniform(-1, 1, (rows, ACTION)),
        "proposed_action": source.uniform(-1, 1, (rows, ACTION)),
        "reward": source.random(rows),
        "discount": np.full(rows, 0.97),
        "demonstration": source.random(rows) < 0.5,
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


def measure(name: str, make: type[SAC], config: SACConfig, task: EnvSpec, updates: int) -> dict[str, Any]:
    """Time ``updates`` updates of an agent; print and return the row."""
    began = time.perf_counter()
    agent = make(config, task, 0)
    made = time.perf_counter() - began
    features = {} if agent.features is None else agent.features.spec
    rows = config.update_to_data * config.batch_size
    batches = [batch(rows, {**task.observation, **features}, seed) for seed in range(4)]
    began = time.perf_counter()
    agent.update(batches[0])
    first = made + time.perf_counter() - began
    seconds = []
    for k in range(updates):
        began = time.perf_counter()
        agent.update(batches[k % len(batches)])
        seconds.append(time.perf_counter() - began)
    row = {
        "name": name,
        "backend": agent.backend,
        "precision": config.precision,
        "first_s": first,
        "ms": 1e3 * median(seconds),
        "critic_updates_per_s": config.update_to_data / median(seconds),
        "busy": busy(agent, batches) if torch.cuda.is_available() else None,
    }
    print(*(f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items()))
    return row


def busy(agent: SAC, batches: list[Batch]) -> float:
    """Return the share of the time of some updates in which kernels ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        began = time.perf_counter()
        for rows in batches:
            agent.update(rows)
        seconds = time.perf_counter() - began
    return 1e-6 * sum(event.self_device_time_total for event in profile.key_averages()) / seconds


if __name__ == "__main__":
    main()
