"""Goals of an action, sent without waiting for their answers."""

import threading
import time
from collections.abc import Callable

from robo_rl.core import DriverError

from ..ros2 import ActionClient, Goal, GoalStatus, Message
from ..ros2.answers import Servers

ANSWER_SECONDS = 1.0
LOOK_SECONDS = 0.2
"""Time between two checks of the server of the newest goal [s]."""
UNDER_WAY = (GoalStatus.ACCEPTED, GoalStatus.EXECUTING, GoalStatus.CANCELING)


class GoalSender:
    """Sends the newest goal, one after another, in a thread of its own.

    Args:
        client: of the action.
        failed: called, in that thread, with the reason why a goal was not accepted.

    Attributes:
        failures: number of goals in a row that were not accepted.
        lost: why the server that accepted the newest goal is gone, or empty.
    """

    def __init__(self, client: ActionClient, failed: Callable[[str], None]) -> None:
        self._client, self._failed = client, failed
        self.failures, self.lost = 0, ""
        self._wanted: Message = None
        self._cancels = False
        self._closed = False
        self._goal: Goal | None = None
        self._servers: Servers = frozenset()  # that were there when the newest goal was accepted
        self._accepted_at = 0.0
        self._busy = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="goals", daemon=True)
        self._thread.start()

    def send(self, goal: Message) -> None:
        """Send a goal as soon as the one before it was answered; it replaces a goal that still waits."""
        with self._changed:
            self._wanted, self._cancels, self.lost = goal, False, ""
            self._changed.notify_all()

    def drop(self) -> None:
        """Drop the goal that still waits; a goal that was sent goes on."""
        with self._changed:
            self._wanted = None

    def cancel(self) -> None:
        """Cancel the newest goal."""
        with self._changed:
            self._wanted, self._cancels = None, True
            self._changed.notify_all()

    def settle(self, timeout: float) -> bool:
        """Return whether all goals and cancellations were sent and answered within ``timeout`` [s]."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._wanted is None and not self._cancels and not self._busy, timeout
            )

    def reset(self) -> None:
        """Forget what failed: an episode begins."""
        with self._changed:
            self.failures, self.lost, self._servers = 0, "", frozenset()

    def ended(self) -> tuple[GoalStatus, Message] | None:
        """Return how the newest goal ended and its result; None while it has not, or another is being sent."""
        with self._changed:
            goal = None if self._busy else self._goal  # a newer goal has servers abort the older one: no failure
        if goal is None or goal.status in UNDER_WAY:
            return None
        return goal.result(ANSWER_SECONDS)

    def runs_for(self) -> float:
        """Return for how long the newest goal has been executed [s]; 0 where it has ended, or none was accepted."""
        with self._changed:
            goal, accepted_at = None if self._busy else self._goal, self._accepted_at
        if goal is None or goal.status not in UNDER_WAY:
            return 0.0
        return time.monotonic() - accepted_at

    def close(self) -> None:
        """End the thread, after a goal that is to be cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                is_due = self._changed.wait_for(
                    lambda: self._wanted is not None or self._cancels or self._closed, LOOK_SECONDS
                )
                wanted, cancels = self._wanted, self._cancels
                self._wanted, self._cancels = None, False
                if self._closed and not cancels:
                    return
                goal, self._busy = self._goal, is_due
            if is_due:
                self._act(None if cancels else wanted, goal)
            else:
                self._look()

    def _act(self, wanted: Message | None, goal: Goal | None) -> None:
        """Send a goal, or cancel ``goal``, the newest that was accepted, where none is wanted."""
        newest = None if wanted is None else goal  # which goes on where the next is not accepted, and can be cancelled
        reason = ""
        servers: Servers = frozenset()
        try:
            if wanted is not None:
                newest = self._client.send_goal(wanted, timeout_s=ANSWER_SECONDS)
                servers = self._client.servers()
            elif goal is not None:
                goal.cancel(ANSWER_SECONDS)
        except DriverError as error:
            reason = str(error)
        with self._changed:
            self._goal, self._busy = newest, False
            if wanted is not None:
                self.failures = self.failures + 1 if reason else 0
            if wanted is not None and not reason:
                self._servers, self._accepted_at = servers, time.monotonic()
            self._changed.notify_all()
        if reason:
            self._failed(reason)

    def _look(self) -> None:
        """Find out whether the server of the newest goal has gone."""
        if not self._servers:
            return
        now = self._client.servers()
        with self._changed:
            if self._servers and not now & self._servers:
                self.lost = "a new server has taken its place" if now else "its server has ended"
                self._servers = frozenset()
