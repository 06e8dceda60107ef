"""Service that re-arms a robot after its own emergency stop."""

import json
import os
import subprocess
import sys

from robo_rl.core import DriverError, RoboRLError, own_command

from ..ros2 import open_node
from .config import RobotConfig
from .resetting import TRIGGER

REARM_SECONDS = 5.0
START_SECONDS = 20.0
"""Longest time for the start of the process that calls the service [s]."""
DOMAIN = "ROS_DOMAIN_ID"
RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"


def rearm_facts(config: RobotConfig) -> dict[str, str]:
    """Return the arguments for :func:`rearm_robot`, for another process without the configuration."""
    return {
        "service": config.rearm_service,
        "name": config.name,
        "namespace": config.namespace,
        "implementation": config.implementation,
        "domain": os.environ.get(DOMAIN) or "0",
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

    The call is made in another process. ROS 2 reads its domain from the environment of the whole process, and the
    calling process, such as a web page for several robots, may use another domain.

    Raises:
        DriverError: if the service does not answer.
    """
    variables = {variable: value for variable, value in ((DOMAIN, domain), (RANGE, discovery_range)) if value}
    try:
        process = subprocess.run(
            own_command(__name__),
            input=json.dumps([service, name, namespace, implementation]),
            capture_output=True,
            text=True,
            errors="replace",
            env=os.environ | variables,
            timeout=START_SECONDS + REARM_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise DriverError(f"{service} was not called within {error.timeout:g} s") from error
    except (ValueError, OSError) as error:
        raise DriverError(f"{service} was not called: {error}") from error
    try:
        answer = json.loads(process.stdout.splitlines()[-1])
    except (ValueError, LookupError) as error:
        reason = (process.stderr.splitlines() or [f"its process ended with exit code {process.returncode}"])[-1]
        raise DriverError(f"{service} was not called: {reason}") from error
    if "error" in answer:
        raise DriverError(str(answer["error"]))
    return bool(answer["success"]), str(answer["message"])


def _call(service: str, name: str, namespace: str, implementation: str) -> dict[str, object]:
    """Call the service from this process; return its answer, or the error."""
    try:
        with open_node(f"robo_rl_{name}_rearm", namespace, implementation) as node:
            answer = node.create_client(TRIGGER, service).call(node.types.make(f"{TRIGGER}_Request"), REARM_SECONDS)
    except RoboRLError as error:
        return {"error": str(error)}
    return {"success": bool(answer.success), "message": str(answer.message)}


if __name__ == "__main__":
    print(json.dumps(_call(*json.load(sys.stdin))))
