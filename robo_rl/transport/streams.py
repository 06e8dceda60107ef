"""Open streams of notices, limited to one for each actor that may be connected."""

from dataclasses import dataclass
from typing import Protocol

from .leases import Lease


class StreamCall(Protocol):
    """Part of gRPC's context that a stream needs."""

    def is_active(self) -> bool:
        """Return whether the call is still active."""
        ...

    def cancel(self) -> object:
        """End the call."""
        ...


@dataclass(eq=False)
class NoticeStream:
    """One ``Watch`` call.

    Attributes:
        lease: lease of the actor.
        number: ``lease.watch`` when the stream began.
        call: the call.
        is_sending: whether a notice is being sent. If the client does not read it, it blocks the thread forever.
    """

    lease: Lease
    number: int
    call: StreamCall
    is_sending: bool = False

    @property
    def is_replaced(self) -> bool:
        """Whether the actor has opened another stream, or joined again."""
        return self.lease.watch != self.number


class NoticeStreams:
    """Open streams. Each occupies a thread of the server, even if its client does not read.

    Args:
        most: largest number of streams. Beyond it, the streams of actors that left are ended, then those of the actors
            that have been silent for longest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._streams: set[NoticeStream] = set()

    def open(self, lease: Lease, call: StreamCall) -> NoticeStream:
        """Add a stream, which replaces the others of its actor. Two threads must not call this at once."""
        lease.watch += 1
        stream = NoticeStream(lease, lease.watch, call)
        self._streams.add(stream)
        streams = list(self._streams)  # copied, because other threads remove streams
        for replaced in (stream for stream in streams if stream.is_replaced and stream.is_sending):
            replaced.call.cancel()  # streams that are not sending end by themselves
        current = [stream for stream in streams if not stream.is_replaced]
        by_silence = sorted(current, key=lambda each: (not each.lease.left, each.lease.seen_ns))
        for excess in by_silence[: max(len(current) - self._most, 0)]:
            excess.call.cancel()
        return stream

    def close(self, stream: NoticeStream) -> None:
        """Remove a stream that has ended."""
        self._streams.discard(stream)
