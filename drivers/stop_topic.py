"""Topics that stop and re-arm a robot, for middleware that can publish but not call services."""

import time
from collections.abc import Callable
from typing import Any

from .ros2 import LATCHED, Node, QoSProfile

STOP = "std_msgs/msg/Bool"
REARM = "std_msgs/msg/Empty"

LISTENING = (QoSProfile(reliability="best_effort"), QoSProfile(), LATCHED)
"""Profiles that together receive a stop from every publisher. The first matches all publishers, the second has lost
messages repeated, and the third also receives messages that were sent before the subscription.
"""

REPEAT_SECONDS = 0.2
"""Shortest time between two stops from a publisher that repeats them [s]. A person may re-arm the robot in between."""


def listen_for_stop(node: Node, topic: str, stop: Callable[[], Any]) -> None:
    """Call ``stop`` in the node's thread whenever ``true`` is published; ``false`` does not re-arm.

    Args:
        node: node that subscribes.
        topic: name of a topic of type std_msgs/msg/Bool.
        stop: stops the robot; may be called several times for one message.
    """
    pressed_at = float("-inf")

    def receive(message: Any) -> None:
        nonlocal pressed_at
        if message.data and time.monotonic() - pressed_at >= REPEAT_SECONDS:
            pressed_at = time.monotonic()
            stop()

    for profile in LISTENING:
        node.create_subscription(STOP, topic, receive, profile)


def listen_for_rearm(node: Node, topic: str, rearm: Callable[[], Any]) -> None:
    """Call ``rearm`` in the node's thread for each message published after the subscription.

    Args:
        node: node that subscribes.
        topic: name of a topic of type std_msgs/msg/Empty.
        rearm: ends the stop.
    """
    node.create_subscription(REARM, topic, lambda _: rearm(), QoSProfile())
