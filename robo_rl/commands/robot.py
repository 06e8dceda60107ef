"""robo-rl robot: the simulated arm or car of a task as a robot, over ROS 2 or on a serial port."""

import os
from typing import Any

from omegaconf import DictConfig

from ..app import build, has_robot
from ..core import ConfigError, Interruption


def run(config: DictConfig) -> int:
    """Act as a robot as configured in configs/robot.yaml until a signal ends it; return the exit code (130 or 143).

    With a robot of servos (robot=so101), its serial port appears at ``robot.port``. Otherwise the robot uses ROS 2.
    Unless the environment variable requests another range, only nodes on this machine can find it, because any node
    that finds it may move it.
    """
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    backend = build(config.task)
    if not hasattr(backend, "as_robot"):
        backend.close()
        raise ConfigError(f"task {backend.spec.task!r} has no simulated arm or car that could be a robot")
    with Interruption() as interruption:
        robot, name = _make_robot(config, backend)
        print(f"{name} runs {backend.spec.task}; Ctrl-C ends it", flush=True)
        try:
            robot.run(lambda: interruption.signal is not None)
        finally:
            robot.close()
    return 0 if interruption.signal is None else 128 + interruption.signal


def _make_robot(config: DictConfig, backend: Any) -> tuple[Any, str]:
    """Return the robot and its name.

    Raises:
        ConfigError: if the configured robot is not one of servos.
    """
    if not has_robot(config):
        robot = build(config.virtual, arm=backend.as_robot())
        return robot, robot.node.name
    if "servos" not in config.robot:
        raise ConfigError(
            f"robot {config.robot.name!r} is driven over ROS 2, where robo-rl robot without robot= is its counterpart; "
            "name robots of servos alone, such as robot=so101"
        )
    arm = build(config.robot, simulation=backend, serve=True)
    return arm, f"{config.robot.name} on {arm.bus.path}"
