"""Service that re-arms a robot after its own emergency stop."""

import os

from ..ros2 import open_node
from .config import RobotConfig
from .resetting import TRIGGER

REARM_SECONDS = 5.0
DOMAIN = "ROS_DOMAIN_ID"
RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"


def rearm_facts(config: RobotConfig) -> dict[str, str]:
    """Return the arguments for :func:`rearm_robot`, for another process without the configuration."""
    return {
        "service": config.rearm_service,
        "name": config.name,
        "namespace": config.namespace,
        "implementation": config.implementation,
        "domain": os.environ.get(DOMAIN, ""),
        "discovery_range": os.environ.get(RANGE, config.discovery_range),
    }


def rearm_robot(
    service: str,
    name: str,
    namespace: str = "",
    implementation: str = "auto",
    domain: str = "",
    discovery_range: str = "",
) -> tuple[bool, str]:
    """Call a robot's service ``robot.rearm_service``; return whether the robot may move again, and its answer.

    Raises:
        DriverError: if the service does not answer.
    """
    for variable, value in ((DOMAIN, domain), (RANGE, discovery_range)):
        if value:
            os.environ[variable] = value
    with open_node(f"robo_rl_{name}_rearm", namespace, implementation) as node:
        answer = node.create_client(TRIGGER, service).call(node.types.make(f"{TRIGGER}_Request"), REARM_SECONDS)
    return bool(answer.success), str(answer.message)
