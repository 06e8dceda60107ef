"""Threads in which the callbacks of an rclpy node run."""

import threading
from contextlib import ExitStack, suppress
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.subscription import Subscription

from .endpoints import Guard

JOIN_SECONDS = 5.0
"""Longest wait for a running callback when the node closes [s]."""
BATCH = 16
"""Largest number of messages that are taken from a subscription before the others get their turn."""


class Spinner:
    """Separate thread with rclpy's executor for one node.

    An exception of a callback is reported and the thread continues, while rclpy's ``spin`` would end with it.

    Args:
        node: rclpy's node.
        context: context of the node.
        guard: reports exceptions.
    """

    def __init__(self, node: Any, context: Context, guard: Guard) -> None:
        self._context, self._guard = context, guard
        self._closing = False
        self.executor = SingleThreadedExecutor(context=context)
        self.executor.add_node(node)
        self._thread = threading.Thread(target=self._run, name=f"{node.get_name()}: executor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread after the current callback, then free the executor.

        The executor is freed last, because a running callback would still use resources that belong to it.
        """
        self._closing = True
        self.executor.create_task(lambda: None)  # wake() alone would leave the executor waiting for work
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
        self.executor.shutdown(timeout_sec=0.0)

    def _run(self) -> None:
        while not self._closing and self._context.ok():
            try:
                self.executor.spin_once()
            except ExternalShutdownException:
                return
            except Exception as error:  # a failing callback must not keep the others from being called
                if not self._closing:  # a callback may have closed its own node
                    self._guard.report(error)


class Unattended(ReentrantCallbackGroup):  # type: ignore[misc]  # rclpy has no annotations
    """Callback group of subscriptions that rclpy's executor leaves to a :class:`MessageSpinner`."""

    def can_execute(self, entity: Any) -> bool:
        return not isinstance(entity, Subscription)


class MessageSpinner:
    """Separate thread that receives the messages of a node's subscriptions.

    rclpy's executor builds a wait set of everything that the node has (20 to 50 entities, most of them services of
    parameters) twice for every message. This wait set contains the subscriptions alone, and is kept.

    Args:
        name: name of the node.
        context: context of the node.
        guard: reports exceptions.

    Attributes:
        group: callback group of the subscriptions, which keeps them from the executor.
    """

    def __init__(self, name: str, context: Context, guard: Guard) -> None:
        self.group = Unattended()
        self._context, self._guard = context, guard
        self._closing = False
        self._subscriptions: list[Any] = []
        self._changed = GuardCondition(None, None, context=context)
        context.on_shutdown(self._wake)
        self._thread = threading.Thread(target=self._run, name=f"{name}: messages", daemon=True)
        self._thread.start()

    def add(self, subscription: Any) -> None:
        """Receive the messages of one of rclpy's subscriptions, whose callback must not raise."""
        self._subscriptions.append(subscription)
        self._wake()

    def close(self) -> None:
        """End the thread after the current callback."""
        self._closing = True
        self._wake()
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_SECONDS)
        self._changed.destroy()  # once the thread no longer uses it

    def _wake(self) -> None:
        with suppress(InvalidHandle):  # closed meanwhile
            self._changed.trigger()

    def _run(self) -> None:
        while not self._is_ending:
            subscriptions = tuple(self._subscriptions)
            with ExitStack() as used:
                for handle in (self._context.handle, self._changed.handle, *(each.handle for each in subscriptions)):
                    used.enter_context(handle)
                waiting = rclpy_implementation.WaitSet(len(subscriptions), 1, 0, 0, 0, 0, self._context.handle)
                while len(subscriptions) == len(self._subscriptions) and not self._is_ending:
                    self._receive(waiting, subscriptions)

    @property
    def _is_ending(self) -> bool:
        return self._closing or not self._context.ok()

    def _receive(self, waiting: Any, subscriptions: tuple[Any, ...]) -> None:
        """Wait for messages, and pass them on."""
        waiting.clear_entities()
        for subscription in subscriptions:
            waiting.add_subscription(subscription.handle)
        waiting.add_guard_condition(self._changed.handle)
        waiting.wait(-1)
        ready = waiting.get_ready_entities("subscription")
        for subscription in subscriptions:
            if subscription.handle.pointer in ready:
                self._take(subscription)

    def _take(self, subscription: Any) -> None:
        try:
            for _ in range(BATCH):
                taken = subscription.handle.take_message(subscription.msg_type, False)
                if taken is None or self._closing:
                    return
                subscription.callback(taken[0])
        except Exception as error:  # the conversion of a message failed
            self._guard.report(error)
