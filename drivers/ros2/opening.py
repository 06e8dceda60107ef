"""Which implementation is used, and why."""

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from robo_rl.core import DriverError

from .api import Node

Implementation = Literal["auto", "rclpy", "dds"]


def choose() -> tuple[Literal["rclpy", "dds"], str]:
    """Return the implementation that ``auto`` stands for, and why.

    Raises:
        DriverError: if there is none.
    """
    if importlib.util.find_spec("cyclonedds") and importlib.util.find_spec("rosbags"):
        return "dds", "plain DDS from pip packages"
    raise DriverError("ROS 2 needs Cyclone DDS: pip install 'robo-rl[ros2]'")


def open_node(
    name: str,
    namespace: str = "",
    implementation: Implementation = "auto",
    remappings: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    interfaces: Iterable[str | Path] = (),
) -> Node:
    from .dds.node import DdsNode

    return DdsNode(name, namespace, remappings, parameters, interfaces)
