"""robo-rl keys: make certificates for learner and actors."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ..app import typed
from ..transport import make_keys


@dataclass(frozen=True)
class KeysConfig:
    """Options of configs/keys.yaml, where the defaults and their meaning stand."""

    path: str
    hosts: list[str]
    actors: list[str]
    days: int


def run(config: DictConfig) -> int:
    """Make certificates as configs/keys.yaml says; return 0."""
    settings = typed(KeysConfig, config)
    folder = Path(settings.path)
    for file in make_keys(folder, settings.hosts, settings.actors, settings.days):
        print(file)
    print(
        f"Learner: runtime.transport.certificates={folder}. Actors: transport.certificates={folder}, with their name."
    )
    return 0
