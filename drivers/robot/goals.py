"""Asynchronous goals of an action."""

import threading
import time
from collections.abc import Callable

from robo_rl.core import DriverError

from ..ros2 import ActionClient, Goal, GoalStatus, Message
from ..ros2.answers import Servers

ANSWER_SECONDS = 1.0
LOOK_SECONDS = 0.2
"""Time between two checks of the server of the newest goal [s]."""
HOLD_SECONDS = 2.0
"""Longest time until a cancelled goal has ended. Its server keeps executing it until then [s]."""
LATE_SECONDS = 0.2
"""Time for which a cancelled goal must be observed to be late [s], because results arrive with a delay after the
process was suspended.
"""
HOLD_LOOK_SECONDS = 0.02
"""Time between two checks of a cancelled goal [s]."""
UNDER_WAY = (GoalStatus.ACCEPTED, GoalStatus.EXECUTING, GoalStatus.CANCELING)


class GoalSender:
    """Thread that sends goals one after another; a newer goal replaces one that is still waiting.

    Args:
        client: client of the action.
        failed: called in that thread with the reason if a goal is not accepted.
        unheld: called in that thread with the reason if a cancelled goal has not ended after :data:`HOLD_SECONDS`,
            though its server is there and no newer goal has replaced it.

    Attributes:
        failures: number of goals in a row that were not accepted.
        lost: why the server that accepted the newest goal is gone; empty if it is not.
    """

    def __init__(
        self, client: ActionClient, failed: Callable[[str], None], unheld: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client, self._failed, self._unheld = client, failed, unheld
        self.failures, self.lost = 0, ""
        self._waiting: Message = None
        self._is_cancelling = False
        self._closed = False
        self._goal: Goal | None = None
        self._cancelled: tuple[Goal, float] | None = None  # the goal and when it was cancelled, until it has ended
        self._late_since: float | None = None  # when the cancelled goal was first seen to be late
        self._servers: Servers = frozenset()  # servers that were available when the newest goal was accepted
        self._accepted_at = 0.0
        self._busy = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="goals", daemon=True)
        self._thread.start()

    def send(self, goal: Message) -> None:
        """Send a goal once the previous one is answered. It replaces a goal that is still waiting."""
        with self._changed:
            self._waiting, self._is_cancelling, self._cancelled, self.lost = goal, False, None, ""
            self._changed.notify_all()

    def drop(self) -> None:
        """Drop the goal that is still waiting. A goal that was sent continues."""
        with self._changed:
            self._waiting = None

    def cancel(self) -> None:
        """Cancel the newest goal."""
        with self._changed:
            self._waiting, self._is_cancelling = None, True
            self._changed.notify_all()

    def settle(self, timeout: float) -> bool:
        """Return whether all goals are answered, and the cancelled one is no longer awaited, within ``timeout`` [s]."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._waiting or self._is_cancelling or self._busy or self._cancelled), timeout
            )

    def reset(self) -> None:
        """Begin an episode: clear all failures."""
        with self._changed:
            self.failures, self.lost, self._servers = 0, "", frozenset()

    def ended(self) -> tuple[GoalStatus, Message] | None:
        """Return the status and result of the newest goal; None if it is still running or another one is being sent."""
        with self._changed:  # a server aborts the older goal when a newer one arrives
            goal = None if self._busy or self._waiting is not None else self._goal
        if goal is None or goal.status in UNDER_WAY:
            return None
        return goal.result(ANSWER_SECONDS)

    def runs_for(self) -> float:
        """Return how long the newest goal has been running [s]; 0 if it has ended or none was accepted."""
        with self._changed:
            goal, accepted_at = None if self._busy else self._goal, self._accepted_at
        if goal is None or goal.status not in UNDER_WAY:
            return 0.0
        return time.monotonic() - accepted_at

    def close(self) -> None:
        """End the thread, after sending a cancellation that is still waiting and after the end of its goal."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                is_due = self._changed.wait_for(
                    lambda: self._waiting is not None or self._is_cancelling or (self._closed and not self._cancelled),
                    HOLD_LOOK_SECONDS if self._cancelled else LOOK_SECONDS,
                )
                request, is_cancelling = self._waiting, self._is_cancelling
                self._waiting, self._is_cancelling = None, False
                if self._closed and not is_cancelling and not self._cancelled:
                    return
                goal, self._busy = self._goal, is_due
            if is_due:
                self._act(None if is_cancelling else request, goal)
            else:
                self._look()
                self._check_cancelled()

    def _act(self, request: Message | None, goal: Goal | None) -> None:
        """Send ``request``; if it is None, cancel ``goal``, the newest goal that was accepted."""
        newest = None if request is None else goal  # it stays the newest if the next one is not accepted
        reason = ""
        servers: Servers = frozenset()
        try:
            if request is not None:
                newest = self._client.send_goal(request, timeout_s=ANSWER_SECONDS)
                servers = self._client.servers()
            elif goal is not None:
                with self._changed:
                    self._cancelled, self._late_since = (goal, time.monotonic()), None
                goal.cancel(ANSWER_SECONDS)
        except DriverError as error:
            reason = str(error)
        with self._changed:
            self._goal, self._busy = newest, False
            if request is not None:
                self.failures = self.failures + 1 if reason else 0
            if request is not None and not reason:
                self._servers, self._accepted_at = servers, time.monotonic()
            self._changed.notify_all()
        if reason:
            self._failed(reason)

    def _look(self) -> None:
        """Check whether the server of the newest goal has ended."""
        if not self._servers:
            return
        servers = self._client.servers()
        with self._changed:
            if self._servers and not servers & self._servers:
                self.lost = "a new server has taken its place" if servers else "its server has ended"
                self._servers = frozenset()

    def _check_cancelled(self) -> None:
        """Check whether the cancelled goal has ended. Its server continues to execute it until then."""
        with self._changed:
            cancelled = self._cancelled
        if cancelled is None:
            return
        goal, since = cancelled
        is_held = goal.status not in UNDER_WAY or bool(self.lost)
        if not is_held and time.monotonic() - since < HOLD_SECONDS:
            return
        if not is_held:
            if self._late_since is None:
                self._late_since = time.monotonic()
            if time.monotonic() - self._late_since < LATE_SECONDS:
                return
        if not is_held:  # before settle() can return
            self._unheld(f"its goal has not ended within {HOLD_SECONDS:g} s of being cancelled")
        with self._changed:
            if self._cancelled is cancelled:
                self._cancelled = None
            self._changed.notify_all()
