"""robo-rl control: a command for a run on this machine, or for a learner."""

from pathlib import Path

from omegaconf import DictConfig

from ..core import ConfigError, nearest, section
from ..telemetry import Command, LiveWatch
from ..transport import COMMANDS, is_command, send_command, wanted_actors


def run(config: DictConfig) -> int:
    """Send the command in configs/control.yaml and print the answer; return 0.

    Raises:
        ConfigError: if there is no such command, or no run that could execute it.
        DataError: if the run does not accept it.
        TransportError: if the learner does not accept it.
    """
    command = str(config.send)
    if not is_command(command):
        raise ConfigError(f"send: there is no command {command!r}: {nearest(command, COMMANDS)}")
    if config.run is None:
        print(send_command(section(config, "transport"), command))
        return 0
    watch = LiveWatch(Path(str(config.run)))
    if wanted_actors(command) is not None:
        raise ConfigError(
            f"{command!r} is only for a learner: set transport.address, which the learner printed, instead of run"
        )
    if not watch.is_going_on():
        raise ConfigError(f"run={config.run}: no run is active there; robo-rl top lists active runs")
    watch.send(Command(command))
    print(f"{config.run}: {command}: sent; the run executes it between two steps")
    return 0
