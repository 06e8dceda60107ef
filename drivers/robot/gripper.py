"""Commands to a gripper, sent as messages or as goals of an action."""

import math
import time

import numpy as np

from robo_rl.core import DriverError, announce

from ..ros2 import ActionClient, GoalStatus, Message, Node, Publisher
from .commanding import COMMAND_QOS, FAILED, SETTLE_SECONDS, check_listener
from .config import GripperConfig
from .goals import GoalSender

GRIPPER = "control_msgs/action/GripperCommand"
RETRY_SECONDS = 1.0
"""Pause between goals that were not accepted [s]."""
MOST_FAILURES = 3
"""Number of consecutive failed goals after which the gripper counts as dead. A goal fails if it is not accepted, or is
aborted or cancelled without a stall.
"""
STUCK_SHARE = 0.02
"""Share of the stroke. Fingers count as stuck if two stalls are closer together than this."""


class GripperCommander:
    """Sender of a gripper's opening: whenever the opening changes, and again if a goal was not accepted.

    A goal that its server aborted is not repeated, because the fingers may hold an object. A goal is repeated if its
    server was restarted. It is an error if the gripper accepts no goals or does not end them, or stalls at one place
    while opening and while closing.
    """

    def __init__(self, node: Node, config: GripperConfig) -> None:
        self._node, self._config = node, config
        self._sent: float | None = None
        self._retry_at = math.inf
        self._reason = ""  # why the last goal was not accepted
        self._counted_result: Message | None = None  # newest result that was counted
        self._ends: list[str] = []  # outcomes of consecutive goals that failed although no finger had stalled
        # positions of consecutive stalls at one place, and whether the fingers were opening
        self._stalls: list[tuple[float, bool]] = []
        self.publisher: Publisher | None = None
        self.client: ActionClient | None = None
        self._goals: GoalSender | None = None
        if config.kind == "positions":
            self.publisher = node.create_publisher("std_msgs/msg/Float64MultiArray", config.name, COMMAND_QOS)
        elif config.kind == "action":
            self.client = node.create_action_client(GRIPPER, config.name)
            self._goals = GoalSender(self.client, self._retry)

    def reset(self) -> None:
        """Begin an episode: clear failures, and send the next opening in any case."""
        self._sent, self._ends, self._stalls = None, [], []
        if self._goals is not None:
            self._goals.reset()

    def send(self, opening: float) -> None:
        """Move the gripper to ``opening``, 0 closed to 1 open. Return without waiting for the motion.

        Raises:
            DriverError: if the gripper rejects, aborts or cancels goals or does not end them, if its fingers are stuck,
                or its topic has no subscription.
        """
        config = self._config
        position = config.closed + opening * (config.open - config.closed)
        if self._goals is not None:
            self._check_goals(self._goals)
        elif self.publisher is not None:
            check_listener(self.publisher)
        is_sent = self._sent is not None and abs(position - self._sent) < config.resolution
        if is_sent and time.monotonic() < self._retry_at:
            return
        self._sent, self._retry_at = position, math.inf
        if self.publisher is not None:
            data = np.full(config.fingers, position)
            self.publisher.publish(self._node.types.make("std_msgs/msg/Float64MultiArray", data=data))
        elif self._goals is not None:
            command = {"position": position, "max_effort": config.effort}
            self._goals.send(self._node.types.make(f"{GRIPPER}_Goal", command=command))

    def stop(self) -> None:
        """Drop the goal that is still waiting. The gripper keeps its opening, because it may hold an object."""
        if self._goals is not None:
            self._goals.drop()
            self._sent = None  # the next opening is sent in any case

    def settle(self) -> None:
        """Wait until commands have been received, at most a few seconds."""
        if self._goals is not None:
            self._goals.settle(SETTLE_SECONDS)
        elif self.publisher is not None:
            self.publisher.wait_for_all_acked(SETTLE_SECONDS)

    def _check_goals(self, goals: GoalSender) -> None:
        """Raise :class:`DriverError` if the gripper is dead."""
        name, timeout = self._config.name, self._config.timeout
        self._count_failures(goals.ended())
        if goals.failures >= MOST_FAILURES:
            raise DriverError(f"the gripper: {goals.failures} goals of {name} in a row failed: {self._reason}")
        if len(self._ends) >= MOST_FAILURES:
            ends = " or ".join(sorted(set(self._ends)))
            raise DriverError(
                f"the gripper: {len(self._ends)} goals of {name} in a row were {ends}, though no finger had stalled"
            )
        if len(self._stalls) >= MOST_FAILURES and len({opened for _, opened in self._stalls}) == 2:
            raise DriverError(
                f"the gripper: {len(self._stalls)} goals of {name} in a row stalled at {self._stalls[-1][0]:g}, while "
                "opening and while closing: the fingers are stuck, or their position is not measured"
            )
        if goals.runs_for() > timeout:
            raise DriverError(
                f"the gripper: a goal of {name} has not ended within {timeout:g} s; where it takes longer, allow that "
                "(robot.gripper.timeout)"
            )
        if goals.lost:
            announce(f"the gripper: {goals.lost}; its goal of {name} is sent again")
            self._sent = None

    def _retry(self, reason: str) -> None:
        """Schedule a repetition; called in the thread of the goals."""
        announce(f"the gripper: {reason}")
        self._reason, self._retry_at = reason, time.monotonic() + RETRY_SECONDS

    def _count_failures(self, ended: tuple[GoalStatus, Message] | None) -> None:
        """Count goals that failed, and print each of their results once."""
        status, result = ended or (None, None)
        if status is None or result is None or result is self._counted_result:
            return
        self._counted_result = result
        self._count_stalls(result)
        end = FAILED.get(status)
        if end is None or result.stalled:
            self._ends = []
        else:
            self._ends.append(end)
        if end is not None:
            # Fingers stall on every object that they grasp, which is not worth a warning to the operator.
            say, stalled = (print, ", stalled") if result.stalled else (announce, "")
            say(f"the gripper: a goal of {self._config.name} was {end} at {result.position:g}{stalled}")

    def _count_stalls(self, result: Message) -> None:
        """Count stalls in a row at one place. An object stops fingers in one direction only."""
        position, target, stroke = float(result.position), self._sent, self._config.open - self._config.closed
        nearest = STUCK_SHARE * abs(stroke)
        if not result.stalled or target is None or not abs(target - position) > nearest:
            self._stalls = []
            return
        if self._stalls and not abs(position - self._stalls[-1][0]) <= nearest:
            self._stalls = []
        self._stalls.append((position, (target > position) == (stroke > 0)))

    def close(self) -> None:
        """End the thread that waits for answers."""
        if self._goals is not None:
            self._goals.close()
