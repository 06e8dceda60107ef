"""ROS 2: nodes, topics, services, actions and parameters, through rclpy or through plain DDS.

:func:`open_node` chooses. Both implementations offer the same: :mod:`.api`.
"""

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
from .opening import choose, open_node
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
    "Subscription",
    "Timer",
    "choose",
    "open_node",
]
