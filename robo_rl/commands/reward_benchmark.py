"""robo-rl reward benchmark: the agreement of reward modules with the true progress of a task."""

import json
from dataclasses import asdict
from pathlib import Path

from omegaconf import DictConfig

from ..app import build_backend, build_reward
from ..command_line.destination import output_file
from ..core import require, scratch_folder, typed, write_durably
from ..monitoring.reward_benchmark import RewardBenchmarkConfig, measure
from ..monitoring.reward_comparison import print_comparison
from ..telemetry import Console


def run(config: DictConfig) -> int:
    """Measure as configured in configs/reward_benchmark.yaml, and print a table; return 0."""
    settings = typed(RewardBenchmarkConfig, config, "benchmark")
    if settings.output is not None:
        output_file("benchmark.output", settings.output)
    backend = build_backend(config)
    try:
        reward = build_reward(config.reward, backend.spec, config.seed)
        require(reward.scorer is not None, "reward.modules", "one or more modules", "none")
        assert reward.scorer is not None
        with scratch_folder() as folder:
            measured = measure(backend, reward.scorer, settings, config.seed, folder)
    finally:
        backend.close()
    console = Console(highlight=False)
    console.print(
        f"{backend.spec.task}: rank correlation with true progress, {settings.episodes} held-out episodes, "
        f"{settings.demonstrations} demonstrations, seed {config.seed}",
        soft_wrap=True,
    )
    print_comparison(console, measured.comparison)
    if measured.learned:
        learned = ", ".join(f"{name} {value:,.6g}" for name, value in measured.learned.items())
        console.print(f"learned: {learned}", soft_wrap=True)
    if settings.output is not None:
        measured_with = asdict(settings)
        del measured_with["output"]  # removed, because it is a path of this machine
        results = {
            "task": backend.spec.task,
            "seed": config.seed,
            **measured_with,
            "modules": {name: asdict(agreement) for name, agreement in measured.comparison.agreement.items()},
            "learned": measured.learned,
            "starc": measured.comparison.starc.values,
        }
        write_durably(Path(settings.output), f"{json.dumps(results, indent=2)}\n".encode())
    return 0
