"""robo-rl control: a command to a running learner."""

from omegaconf import DictConfig

from ..app import section
from ..transport import send_command


def run(config: DictConfig) -> int:
    """Send what configs/control.yaml says and print the answer; return 0."""
    print(send_command(section(config, "transport"), str(config.send)))
    return 0
