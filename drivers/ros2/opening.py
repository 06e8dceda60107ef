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
"""Packages of messages that drivers use and a small installation of ROS 2 may lack."""


def why_no_rclpy() -> str | None:
    """Return why rclpy cannot be used, or None where it can.

    It is imported to find out: a distribution made for another version of Python can be found, but not imported.
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
    """Return the message packages that drivers use and the sourced workspace lacks; none where rclpy is not used."""
    if choose()[0] != "rclpy":
        return []
    return [package for package in MESSAGE_PACKAGES if importlib.util.find_spec(package) is None]


def why_no_dds() -> str | None:
    """Return why plain DDS cannot be used, or None where it can."""
    missing = [module for module in ("cyclonedds", "rosbags") if importlib.util.find_spec(module) is None]
    return f"{' and '.join(missing)} missing" if missing else None


def choose(implementation: str = "auto") -> tuple[Literal["rclpy", "dds"], str]:
    """Return the implementation that is used, and why. ``auto`` is rclpy where it can be imported, else plain DDS.

    Raises:
        ConfigError: if ``implementation`` is not one.
        DriverError: if it cannot be used here.
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
        name: of the node.
        namespace: its namespace.
        implementation: see :func:`choose`.
        remappings: names to change: ``__node``, ``__ns``, and names of topics, services and actions. They count more
            than those of the command line (``--ros-args``).
        parameters: values that take the place of declared defaults.
        interfaces: folders with message, service and action definitions (``package/msg/Name.msg`` and so on) that the
            shipped ones lack. With rclpy their packages must be built and sourced instead.

    Raises:
        ConfigError: if a name, a definition or an environment variable is not allowed.
        DriverError: if the implementation cannot be used here.
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
