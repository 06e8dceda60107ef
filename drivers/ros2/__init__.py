"""ROS 2: nodes, topics, services, actions and parameters, over rclpy or plain DDS.

:func:`open_node` chooses the implementation. Both provide the interfaces of :mod:`.api`.
"""

from .answers import ServerLostError
from .api import (
    ActionClient,
    Goal,
    GoalStatus,
    Message,
    Node,
    Publisher,
    Repeater,
    ServerGoal,
    Subscription,
)
from .opening import choose, missing_packages, open_node
from .qos import LATCHED, QoSProfile

__all__ = [
    "LATCHED",
    "ActionClient",
    "Goal",
    "GoalStatus",
    "Message",
    "Node",
    "Publisher",
    "QoSProfile",
    "Repeater",
    "ServerGoal",
    "ServerLostError",
    "Subscription",
    "choose",
    "missing_packages",
    "open_node",
]
