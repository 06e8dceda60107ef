"""robo-rl control: a command to a run on this machine, or to a learner."""

from pathlib import Path

from omegaconf import DictConfig

from ..app import section
from ..core import ConfigError, nearest
from ..telemetry import Command, LiveWatch
from ..transport import COMMANDS, is_command, send_command, wanted_actors


def run(config: DictConfig) -> int:
    """Send what configs/control.yaml says and print the answer; return 0.

    Raises:
        ConfigError: if there is no such command, or no run that could take it.
        DataError: if the run does not take it.
        TransportError: if the learner does not.
    """
    command = str(config.send)
    if not is_command(command):
        raise ConfigError(f"send: there is no command {command!r}: {nearest(command, COMMANDS)}")
    if config.run is None:
        print(send_command(section(config, "transport"), command))
        return 0
    watch = LiveWatch(Path(str(config.run)))
    if wanted_actors(command) is not None:
        raise ConfigError(f"{command!r} goes to a learner alone: give transport.address as it printed it, not run")
    if not watch.is_going_on():
        raise ConfigError(f"run={config.run}: no run goes on there; robo-rl top shows those that do")
    watch.send(Command(command))
    print(f"{config.run}: {command}: the run does so when it comes to it")
    return 0
