"""Choice between rclpy and plain DDS, and opening of nodes."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from robo_rl.core import ConfigError, DriverError, passed_on, require

from .api import Node

INSTALL = "source /opt/ros/DISTRO/setup.bash, or pip install 'robo-rl[ros2]'"

MESSAGE_PACKAGES = ("std_srvs", "control_msgs", "controller_manager_msgs", "ackermann_msgs", "tf2_msgs", "nav_msgs")
"""Message packages that drivers use and that a small installation of ROS 2 may lack."""


def why_no_rclpy() -> str | None:
    """Return why rclpy cannot be used, or None if it can.

    The check imports it, because a distribution for another version of Python is found but cannot be imported.
    """
    if importlib.util.find_spec("rclpy") is None:
        return "no ROS 2 distribution is sourced"
    try:
        for module in ("rclpy.action", "rosidl_runtime_py.utilities"):
            importlib.import_module(module)
    except ImportError as error:
        python = ".".join(map(str, sys.version_info[:2]))
        return f"rclpy cannot be imported by Python {python} ({str(error).partition(chr(10))[0]})"
    return None


def missing_packages() -> list[str]:
    """Return the message packages that drivers use and the sourced workspace lacks; none without rclpy."""
    if choose()[0] != "rclpy":
        return []
    return [package for package in MESSAGE_PACKAGES if importlib.util.find_spec(package) is None]


def why_no_dds() -> str | None:
    """Return why plain DDS cannot be used, or None if it can."""
    missing = [module for module in ("cyclonedds", "rosbags") if importlib.util.find_spec(module) is None]
    return f"{' and '.join(missing)} missing" if missing else None


def choose(implementation: str = "auto") -> tuple[Literal["rclpy", "dds"], str]:
    """Return the implementation to use and the reason. ``auto`` is rclpy if it can be imported, otherwise plain DDS.

    Raises:
        ConfigError: if ``implementation`` is unknown.
        DriverError: if the implementation cannot be used on this machine.
    """
    require(implementation in ("auto", "rclpy", "dds"), "implementation", "auto, rclpy or dds", implementation)
    no_rclpy = why_no_rclpy() if implementation != "dds" else "dds was asked for"
    if no_rclpy is None:
        distribution = os.environ.get("ROS_DISTRO")
        return "rclpy", f"rclpy{f' of {distribution}' if distribution else ''} can be imported"
    if implementation == "rclpy":
        raise DriverError(f"{no_rclpy}: source /opt/ros/DISTRO/setup.bash of a distribution for this Python")
    no_dds = why_no_dds()
    if no_dds is not None:
        raise DriverError(f"no ROS 2: {no_rclpy}; {no_dds}: {INSTALL}")
    return "dds", no_rclpy


def open_node(
    name: str,
    namespace: str = "",
    implementation: str = "auto",
    remappings: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    interfaces: Iterable[str | Path] = (),
) -> Node:
    """Open a node. Close it, or use it in a ``with`` statement.

    Args:
        name: name of the node.
        namespace: namespace of the node.
        implementation: see :func:`choose`.
        remappings: new names by old name: ``__node``, ``__ns``, and names of topics, services and actions. They
            override those of the command line (``--ros-args``).
        parameters: values that override the defaults of declared parameters.
        interfaces: folders with additional message, service and action definitions (``package/msg/Name.msg`` etc.).
            With rclpy, their packages must be built and sourced instead.

    Raises:
        ConfigError: if a name, a definition or an environment variable is invalid.
        DriverError: if the implementation cannot be used on this machine.
    """
    chosen, _ = choose(implementation)
    remappings = {**passed_on(), **(remappings or {})}
    if chosen == "rclpy":
        folders = [str(folder) for folder in interfaces]
        if folders:
            raise ConfigError(f"interfaces={folders} are for plain DDS; rclpy takes definitions from built packages")
        from .with_rclpy.node import RclpyNode

        return RclpyNode(name, namespace, remappings, parameters)
    from .dds.node import DdsNode

    return DdsNode(name, namespace, remappings, parameters, interfaces)
