"""robo-rl data describe: counts, statistics and flagged episodes of a data set."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig

from ..command_line.destination import output_file
from ..core import DataError, typed, write_durably
from ..recording.description import describe, print_description
from ..replay import EpisodeStore
from ..telemetry import Console


@dataclass(frozen=True)
class DescribeConfig:
    """Options of configs/data_describe.yaml, which documents them and holds their defaults."""

    path: str
    pictures: bool
    output: str | None


def run(config: DictConfig) -> int:
    """Describe as configured in configs/data_describe.yaml; return 0."""
    settings = typed(DescribeConfig, config)
    if settings.output is not None:
        output_file("output", settings.output)
    with EpisodeStore.open(Path(settings.path)) as store:
        if not len(store):
            raise DataError(f"{settings.path} holds no episode, so there is nothing to describe")
        description = describe(store, settings.pictures)
    print_description(Console(highlight=False), settings.path, description)
    if settings.output is not None:
        write_durably(Path(settings.output), f"{json.dumps(asdict(description), indent=2)}\n".encode())
    return 0
