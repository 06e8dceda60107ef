"""Goals of an action for which the arm never waits."""

import threading
from collections.abc import Callable

from robo_rl.core import DriverError

from ..ros2 import ActionClient, Goal, GoalStatus, Message

ANSWER_SECONDS = 1.0


class GoalSender:
    """Sends the newest goal, one after another, in a thread of its own: an answer takes time that the arm has not.

    Args:
        client: of the action.
        failed: told, in that thread, why a goal was not accepted.
    """

    def __init__(self, client: ActionClient, failed: Callable[[str], None]) -> None:
        self._client, self._failed = client, failed
        self._wanted: Message = None
        self._cancels = False
        self._closed = False
        self._goal: Goal | None = None
        self._busy = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="goals", daemon=True)
        self._thread.start()

    def send(self, goal: Message) -> None:
        """Send a goal as soon as that before it was answered; what still waits then is left out."""
        with self._changed:
            self._wanted, self._cancels = goal, False
            self._changed.notify()

    def drop(self) -> None:
        """Leave out the goal that still waits; what was sent goes on."""
        with self._changed:
            self._wanted = None

    def cancel(self) -> None:
        """Cancel the newest goal."""
        with self._changed:
            self._wanted, self._cancels = None, True
            self._changed.notify()

    def aborted(self) -> Message | None:
        """Return the result of the newest goal if its server has aborted it."""
        with self._changed:
            goal = None if self._busy else self._goal  # a newer goal has servers abort the older one: no failure
        if goal is None or goal.status is not GoalStatus.ABORTED:
            return None
        _, result = goal.result(ANSWER_SECONDS)
        return result

    def close(self) -> None:
        """End the thread, after a goal that is to be cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._cancels or self._closed)
                wanted, cancels = self._wanted, self._cancels
                self._wanted, self._cancels = None, False
                if self._closed and not cancels:
                    return
                goal, self._busy = self._goal, True
            newest = None if cancels else goal  # which goes on where the next is not accepted, and can be cancelled
            try:
                if not cancels:
                    newest = self._client.send_goal(wanted, timeout_s=ANSWER_SECONDS)
                elif goal is not None:
                    goal.cancel(ANSWER_SECONDS)
            except DriverError as error:
                self._failed(str(error))
            with self._changed:
                self._goal, self._busy = newest, False
