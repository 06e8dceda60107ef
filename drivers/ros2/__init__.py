"""ROS 2: nodes, topics, services, actions and parameters, through rclpy or through plain DDS."""

from .api import Node
from .opening import open_node
from .qos import QoSProfile

__all__ = ["Node", "QoSProfile", "open_node"]
