"""robo-rl keys: certificates for learner and actors."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ..core import typed
from ..transport import make_keys


@dataclass(frozen=True)
class KeysConfig:
    """Options of configs/keys.yaml, which documents them and holds their defaults."""

    output: str
    hosts: list[str]
    actors: list[str]
    days: int


def run(config: DictConfig) -> int:
    """Create certificates as configured in configs/keys.yaml; return 0."""
    settings = typed(KeysConfig, config)
    folder = Path(settings.output)
    for file in make_keys(folder, settings.hosts, settings.actors, settings.days):
        print(file)
    print(
        f"Learner: runtime.transport.certificates={folder}. Actors: transport.certificates={folder}, with their name."
    )
    return 0
