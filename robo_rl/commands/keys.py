"""robo-rl keys: make certificates for learner and actors."""

from pathlib import Path

from omegaconf import DictConfig

from ..transport import make_keys


def run(config: DictConfig) -> int:
    """Make certificates as configs/keys.yaml says; return 0."""
    folder = Path(config.path)
    names = [str(name) for name in config.actors]
    for file in make_keys(folder, [str(host) for host in config.hosts], names, config.days):
        print(file)
    print(
        f"Learner: runtime.transport.certificates={folder}. Actors: transport.certificates={folder}, with their name."
    )
    return 0
