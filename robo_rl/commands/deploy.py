"""robo-rl deploy: a trained policy written to a file that is used without PyTorch."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ..app import load_policy, write_deployed
from ..command_line.destination import output_file
from ..core import printable, require, typed
from ..deployment import check_name, check_weights
from ..telemetry import Console


@dataclass(frozen=True)
class DeployConfig:
    """Options of configs/deploy.yaml, which documents them and holds their defaults."""

    run: str
    output: str
    checkpoint: str
    observations: int
    seed: int
    weights: str

    def __post_init__(self) -> None:
        require(1 <= self.observations <= 1_000_000, "observations", "from 1 to 1,000,000", self.observations)
        require(self.seed >= 0, "seed", "0 or more", self.seed)
        check_weights(self.weights)


def run(config: DictConfig) -> int:
    """Write the policy as configured in configs/deploy.yaml, and print how it compares with PyTorch; return 0."""
    settings = typed(DeployConfig, config)
    output = Path(settings.output)
    check_name(output)
    output_file("output", output)
    trained = load_policy(Path(settings.run), None, settings.checkpoint)
    agent = printable(str(trained.config.choices.get("agent")))
    outcome = write_deployed(trained, output, settings.observations, settings.seed, settings.weights)
    console = Console(highlight=False, markup=False)
    size = output.stat().st_size / 1000
    console.print(
        f"{output} holds the policy of agent {agent} for {printable(trained.spec.task)}, step {trained.step:,}: "
        f"{size:,.0f} kB",
        soft_wrap=True,
    )
    if outcome is None:
        console.print("It was not compared with PyTorch: no C compiler was found (CC, cc, gcc, clang)")
    else:
        console.print(
            f"Largest difference from PyTorch on {outcome.observations:,} random observations {outcome.difference:.1e}"
        )
        console.print(
            f"Time per decision on one core {outcome.file_microseconds:,.1f} us, PyTorch "
            f"{outcome.torch_microseconds:,.1f} us"
        )
    return 0
