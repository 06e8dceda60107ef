"""ROS 2: nodes, topics, services, actions and parameters, over rclpy or plain DDS.

:func:`open_node` chooses the implementation. Both provide the interfaces of :mod:`.api`.
"""

from .answers import ServerLostError
from .api import (
    ActionClient,
    Client,
    Goal,
    GoalStatus,
    Graph,
    Message,
    MessageTypes,
    Node,
    Problem,
    Publisher,
    Repeater,
    ServerGoal,
    Subscription,
    Timer,
)
from .opening import choose, missing_packages, open_node
from .qos import LATCHED, QoSProfile

__all__ = [
    "LATCHED",
    "ActionClient",
    "Client",
    "Goal",
    "GoalStatus",
    "Graph",
    "Message",
    "MessageTypes",
    "Node",
    "Problem",
    "Publisher",
    "QoSProfile",
    "Repeater",
    "ServerGoal",
    "ServerLostError",
    "Subscription",
    "Timer",
    "choose",
    "missing_packages",
    "open_node",
]
