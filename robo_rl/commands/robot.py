"""robo-rl robot: the simulated arm or car of a task as a robot over ROS 2."""

import os

from omegaconf import DictConfig

from ..app import build
from ..core import ConfigError, Interruption


def run(config: DictConfig) -> int:
    """Act as a robot as configured in configs/robot.yaml until a signal ends it; return the exit code (130 or 143).

    Unless the environment variable says otherwise, only nodes on this machine can find it: any that can may move it.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    backend = build(config.task)
    if not hasattr(backend, "as_robot"):
        backend.close()
        raise ConfigError(f"task {backend.spec.task!r} has no simulated arm or car that could be a robot")
    with Interruption() as interruption:
        robot = build(config.virtual, arm=backend.as_robot())
        print(f"{robot.node.name} runs {backend.spec.task}; Ctrl-C ends it", flush=True)
        try:
            robot.run(lambda: interruption.signal is not None)
        finally:
            robot.close()
    return 0 if interruption.signal is None else 128 + interruption.signal
