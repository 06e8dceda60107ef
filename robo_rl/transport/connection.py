"""Connection of an actor to its learner. A dead connection is replaced, and the operator is notified of failures."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from robo_rl.core import Clock

from .config import TransportConfig
from .service import EXCHANGE, JOIN, RETRY_KEY, WATCH, channel_maker, metadata

PATIENCE_SECONDS = 5.0
REMINDER_SECONDS = 30.0
MOST_RETRY_SECONDS = 10.0
"""Longest pause that a learner may request [s]. Its errors come from another program and are not trusted."""


class SilenceNotice:
    """Messages to the operator about a learner that does not answer, and why.

    The first message comes after :data:`PATIENCE_SECONDS`, the others every :data:`REMINDER_SECONDS`.

    Args:
        config: configuration of the transport.
        notify: called with each line for the operator.
        clock: monotonic clock.
    """

    def __init__(self, config: TransportConfig, notify: Callable[[str], None], clock: Clock) -> None:
        self._config = config
        self._notify = notify
        self._clock = clock
        self._is_reported = False
        self.answered()

    def answered(self) -> None:
        """Register an answer."""
        if self._is_reported:
            self._is_reported = False
            self._notify(f"The learner at {self._config.address} answers again")
        self._answered_ns = self._clock.now_ns()
        self._due_ns = self._answered_ns + int(PATIENCE_SECONDS * 1e9)

    def failed(self, error: Any) -> None:
        """Register a call that ended in ``error``."""
        now = self._clock.now_ns()
        if now < self._due_ns:
            return
        self._due_ns = now + int(REMINDER_SECONDS * 1e9)
        address = self._config.address
        if retry_seconds(error) is not None:
            self._notify(f"The learner at {address} makes this actor wait: {error.details()}")
            return
        if self._config.certificates is None:
            secured = "that it has no certificates either"
        else:
            secured = "that both sides have certificates of one authority, the learner's for this address"
        self._is_reported = True
        seconds = (now - self._answered_ns) * 1e-9
        self._notify(
            f"The learner at {address} has not answered for {seconds:.0f} s: {error.details()}. Check the address, "
            f"that the learner runs there, and {secured}."
        )


class Connection:
    """Connection that makes an actor's calls.

    After a change of the network, a connection may be dead without an error: messages are lost, and gRPC keeps using
    it. If a call gets no answer in time, the calls after it therefore use a new channel.

    One thread calls :meth:`watch`, another one everything else.

    Args:
        config: configuration of the transport.
        actor: name of the actor, whose certificate is presented.
        notice: notified of answers and failures.

    Raises:
        ConfigError: if keys or token cannot be read.
    """

    def __init__(self, config: TransportConfig, actor: str, notice: SilenceNotice) -> None:
        self._timeout = config.timeout_seconds
        self._metadata = metadata(config.token())
        self._notice = notice
        self._make_channel = channel_maker(config, actor)
        self._channel = self._make_channel()
        self._watching: Any = None
        self._leaving = False
        self._lock = threading.Lock()

    def join(self, request: Any) -> Any:
        """Send a ``JoinRequest``; return the reply."""
        call = self._channel.unary_unary(JOIN.path, JOIN.request.SerializeToString, JOIN.reply.FromString)
        reply = call(request, timeout=self._timeout, metadata=self._metadata)
        self._notice.answered()
        return reply

    def begin_exchange(self, data: bytes) -> Any:
        """Send a serialised ``ExchangeRequest``; return the call for :meth:`end_exchange`."""
        call = self._channel.unary_unary(EXCHANGE.path, None, EXCHANGE.reply.FromString)
        return call.future(data, timeout=self._timeout, metadata=self._metadata)

    def end_exchange(self, call: Any) -> Any:
        """Wait for the reply of a call of :meth:`begin_exchange` and return it."""
        reply = call.result()
        self._notice.answered()
        return reply

    def watch(self, request: Any) -> Iterator[Any]:
        """Yield notices until the learner is lost or this actor leaves."""
        with self._lock:
            if self._leaving:  # otherwise the call would not be cancelled
                return iter(())
            call = self._channel.unary_stream(WATCH.path, WATCH.request.SerializeToString, WATCH.reply.FromString)
            notices: Iterator[Any] = call(request, metadata=self._metadata)
            self._watching = notices
            return notices

    def failed(self, error: Any) -> None:
        """Register a call that ended in ``error`` but was not refused permanently."""
        self._notice.failed(error)
        if retry_seconds(error) is not None:
            return
        with self._lock:
            dead_channel = self._channel if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED else None
            if dead_channel is not None:
                self._channel = self._make_channel()
            notices, self._watching = self._watching, None
        if notices is not None:
            notices.cancel()  # the connections of a stopped learner process stay open
        if dead_channel is not None:
            dead_channel.close()

    def leave(self) -> None:
        """End the notices permanently."""
        with self._lock:
            self._leaving = True
            notices = self._watching
        if notices is not None:
            notices.cancel()

    def close(self) -> None:
        """Close the channel. May be called twice."""
        self._channel.close()


def retry_seconds(error: Any) -> float | None:
    """Return the time until the next attempt after a temporary refusal [s]; None for any other error."""
    value = dict(error.trailing_metadata() or ()).get(RETRY_KEY)
    with contextlib.suppress(TypeError, ValueError):
        seconds = float(value or "")
        return min(max(seconds, 0.0), MOST_RETRY_SECONDS) if math.isfinite(seconds) else None
    return None
