"""Admission of requests to the learner: authentication, identity and rate limits."""

import hmac
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from robo_rl.core import Clock, Repetitions, plain_text

from .allowance import Allowance
from .config import TransportConfig
from .keys import NAME, OPERATOR
from .service import CONTROL, RETRY_KEY, TOKEN_KEY, Call, most_connections
from .strangers import Strangers, end_connection
from .waiting import WaitingCalls

NOTE_INTERVAL_NS = 10_000_000_000
MOST_NOTES = 50
"""Largest number of notes per :data:`NOTE_INTERVAL_NS`."""
NOTE_CHARACTERS = 1000
REFUSAL_CHARACTERS = 4000
"""Largest length of an error [characters]. gRPC sends it as metadata, which clients may refuse from 8 kB on."""
REFUSAL_CHARACTERS_UNICODE = 500
"""Largest length of an error that is not all ASCII [characters], because one character may take 12 bytes."""
REFUSED_TOKEN = (
    "the token is missing or not that of the learner; give learner and actors the same transport.token_file (without "
    "one, only processes of one user on one machine have the same token)"
)

Code = grpc.StatusCode


class Admission(grpc.ServerInterceptor):  # type: ignore[misc]
    """Interceptor that checks the token, form, certificate and rate of every request, in this order.

    The token is checked in an interceptor, before the handlers. Otherwise an unauthenticated client that opens a call
    and never sends its request would occupy a thread of the server.

    Args:
        config: configuration of the transport.
        clock: monotonic clock.

    Attributes:
        refusals: number of refused requests by kind.
        strangers: connections that have not yet made a call with a correct token and certificate.

    Raises:
        ConfigError: if the token cannot be read.
    """

    def __init__(self, config: TransportConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._token = config.token()
        self._waiting = WaitingCalls()
        # By name of each actor that has joined. All others share one allowance, because names can be made up freely.
        self._allowances = {OPERATOR: self._make_allowances()}
        self._newcomers = self._make_allowances()
        self._lock = threading.Lock()
        self._notes: list[str] = []
        self._interval_ns, self._interval_notes, self._left_out = clock.now_ns(), 0, 0
        self._repetitions = Repetitions(clock)
        self.refusals = self._repetitions.counts
        self.strangers = Strangers(most_connections() // 2)

    def guarded(
        self, call: Call, method: Callable[[Any, Any], Any], read: Callable[[bytes], Any] | None = None
    ) -> Callable[[Iterator[bytes], Any], Any]:
        """Return a handler that receives a request, makes all checks except that of the token, and calls ``method``.

        The handler accepts a stream of requests and reads only the first, because gRPC would wait for a single request
        without a time limit.

        Args:
            call: call that ``method`` answers.
            method: called with the request and gRPC's context; returns the reply, or an iterator of replies.
            read: parses the received bytes; None: they are parsed as a ``call.request``.
        """
        read = read or call.request.FromString

        def unary(requests: Iterator[bytes], context: Any) -> bytes:
            reply: bytes = method(self._receive(call, read, requests, context), context).SerializeToString()
            return reply

        def stream(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            for reply in method(self._receive(call, read, requests, context), context):
                yield reply.SerializeToString()

        return stream if call.streams else unary

    def welcome(self, actor: str) -> None:
        """Give an actor that has joined its own allowance."""
        self._allowances.setdefault(actor, self._make_allowances())

    def forget(self, actor: str) -> None:
        """Treat an actor as a newcomer again."""
        self._allowances.pop(actor, None)

    def refuse(self, context: Any, code: Any, kind: str, text: str) -> NoReturn:
        """End a request with the error ``text``; count the refusal under ``kind`` and note it.

        ``text`` may quote the request, so it is shortened to one line of bounded length before it is sent and noted.
        """
        line = plain_text(text, REFUSAL_CHARACTERS)
        text = line if line.isascii() else plain_text(text, REFUSAL_CHARACTERS_UNICODE)
        self._note_refusal(context.peer(), kind, text)
        context.abort(code, text)
        raise AssertionError("abort returned")

    def _note_refusal(self, peer: str, kind: str, text: str) -> None:
        if self._repetitions.count(kind):
            self.note(f"Refused a request from {peer}: {text} ({self.refusals[kind]} such)")

    def postpone(self, context: Any, seconds: float, kind: str, text: str) -> NoReturn:
        """Refuse a request temporarily: the sender may repeat it after ``seconds`` [s]."""
        context.set_trailing_metadata([(RETRY_KEY, f"{seconds:.3f}")])
        self.refuse(context, Code.RESOURCE_EXHAUSTED, kind, text)

    def note(self, text: str) -> None:
        """Keep a line for the operator, without control characters, unless there were too many recently."""
        with self._lock:
            now = self._clock.now_ns()
            if now - self._interval_ns >= NOTE_INTERVAL_NS:
                if self._left_out:
                    self._notes.append(f"{self._left_out} more lines on actors were left out")
                self._interval_ns, self._interval_notes, self._left_out = now, 0, 0
            self._interval_notes += 1
            if self._interval_notes > MOST_NOTES:
                self._left_out += 1
            else:
                self._notes.append(plain_text(text, NOTE_CHARACTERS))

    def take_notes(self) -> list[str]:
        """Return the messages for the operator since the last call.

        Refusals of one kind that repeat are noted at growing intervals, see :class:`~robo_rl.core.Repetitions`.
        """
        with self._lock:
            notes, self._notes = self._notes, []
            return notes

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Return the handler of a request whose headers have arrived; see :class:`grpc.ServerInterceptor`."""
        token = dict(details.invocation_metadata).get(TOKEN_KEY, "")
        if not self._token or hmac.compare_digest(str(token).encode(), self._token.encode()):
            return continuation(details)
        return grpc.stream_unary_rpc_method_handler(
            self._refuse_stranger
        )  # a stream handler does not wait for a message

    def _refuse_stranger(self, requests: Any, context: Any) -> NoReturn:
        peer = context.peer()
        context.add_callback(lambda: end_connection(peer))
        self.refuse(context, Code.UNAUTHENTICATED, "token", REFUSED_TOKEN)

    def _receive(self, call: Call, read: Callable[[bytes], Any], requests: Iterator[bytes], context: Any) -> Any:
        # read now, because gRPC forgets it when it ends the call, as it does for a message that is too large
        peer = context.peer()
        self.strangers.trust(peer)
        text = f"a {call.name} request without a message, or with one of more than {self._config.message_bytes} bytes"
        try:
            data = self._waiting.receive(requests, context)
        except grpc.RpcError:
            self._note_refusal(peer, "form", text)
            raise
        if data is None:
            self._note_refusal(peer, "form", text)
            context.abort(Code.INVALID_ARGUMENT, text)
            raise AssertionError("abort returned")
        try:
            request = read(data)
        except DecodeError:
            self.refuse(context, Code.INVALID_ARGUMENT, "form", f"this is not a {call.name} request")
        name = OPERATOR if call is CONTROL else request.actor
        self._check_identity(context, name)
        self._check_rate(context, name, len(data))
        return request

    def _check_identity(self, context: Any, name: str) -> None:
        if NAME.fullmatch(name) is None:
            text = "an actor's name consists of letters, digits, - _ . (at most 64)"
            self.refuse(context, Code.INVALID_ARGUMENT, "form", text)
        if self._config.certificates is None:
            return
        names = [value.decode("utf-8", "replace") for value in context.auth_context().get("x509_common_name", [])]
        if name not in names:
            text = f"the certificate belongs to {', '.join(names) or 'nobody'}, not to {name}"
            self.refuse(context, Code.PERMISSION_DENIED, "identity", text)

    def _make_allowances(self) -> tuple[Allowance, Allowance]:
        """Return the allowances of one actor: requests and bytes."""
        rates = self._config.requests_per_second, self._config.bytes_per_second
        requests, sizes = (Allowance(rate, self._clock) for rate in rates)
        return requests, sizes

    def _check_rate(self, context: Any, name: str, size: int) -> None:
        requests, sizes = self._allowances.get(name, self._newcomers)
        seconds = requests.spend(1) or sizes.spend(size)
        if seconds:
            config = self._config
            limits = {"requests": config.requests_per_second, "bytes": config.bytes_per_second}
            allowed = " and ".join(f"{limit:g} {what}" for what, limit in limits.items() if limit is not None)
            text = f"{name} sends more than {allowed} per second; try again in {seconds:.3f} s"
            self.postpone(context, seconds, "rate", text)
