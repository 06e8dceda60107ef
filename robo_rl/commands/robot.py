"""robo-rl robot: a task's simulated arm or car as a robot over ROS 2."""

import os

from omegaconf import DictConfig

from ..app import build
from ..core import ConfigError, Interruption


def run(config: DictConfig) -> int:
    """Be a robot as configs/robot.yaml says until it is ended; return the exit code (130 or 143: by a signal).

    Unless the environment says otherwise, only nodes on this machine find it: every node that does may move it.
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
