"""The actor's end of the wire: it reconnects by itself and never holds up the control loop."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from robo_rl.core import (
    CheckpointError,
    Closing,
    EnvSpec,
    MonotonicClock,
    TransitionOutbox,
)

from . import messages_pb2 as messages
from .config import TransportConfig
from .connection import Connection, SilenceNotice
from .incoming import LearnerNews
from .memory import keep_freed_memory
from .outgoing import ActorReport
from .policy import PolicyAssembly
from .sending import RETRY_SECONDS, StepSender, largest_step
from .views import LinkStatus


class LearnerLink(Closing):
    """Sends what the outbox holds, receives policies and guidance, in threads of its own.

    Args:
        config: of the wire.
        actor: identity of the robot or simulator; with certificates, the name in them.
        spec: of the environment.
        facts: JSON values that must agree with the learner's, beside the spec.
        outbox: encoded steps; they leave it once the learner has settled them.
        run: run that the outbox belongs to; empty: none yet.
        tell: given what people should know: that the learner does not answer, and why.

    Attributes:
        report, say, show, end_run: what is told beside the steps, see :class:`.ActorReport`.
        take_orders, take_policy, wait_for_policy: what came, see :class:`.LearnerNews`.
        wake: tells that the outbox has something to send.

    None of these wait for the network, but for ``wait_for_policy``.

    Raises:
        ConfigError: if keys or token cannot be read, or a step does not fit into a message.
    """

    def __init__(
        self,
        config: TransportConfig,
        actor: str,
        spec: EnvSpec,
        facts: Mapping[str, Any],
        outbox: TransitionOutbox,
        run: str = "",
        tell: Callable[[str], None] = print,
    ) -> None:
        step_bytes = largest_step(config, spec)
        keep_freed_memory()
        self._actor = actor
        self._outbox = outbox
        self._news, awake = LearnerNews(), threading.Event()
        self.take_orders, self.take_policy = self._news.take_orders, self._news.take_policy
        self.wait_for_policy = self._news.wait_for_policy
        self.wake = awake.set
        self._report = ActorReport(self.wake)
        self.report, self.say = self._report.report, self._report.say
        self.show, self.end_run = self._report.show, self._report.end_run
        told = json.dumps({"spec": spec.to_json(), **facts})
        self._connection = Connection(config, actor, SilenceNotice(config, tell, MonotonicClock()))
        self._sender = StepSender(
            config, actor, told, step_bytes, outbox, run, self._connection, self._news, awake, self._report
        )
        self._threads: list[threading.Thread] = []

    @property
    def run(self) -> str:
        """Run of the learner, once it is joined."""
        return self._sender.run

    @property
    def session(self) -> int:
        """Number of this actor's session, once it has joined."""
        return self._sender.session

    @property
    def status(self) -> LinkStatus:
        """What is known now.

        Raises:
            TransportError: if the learner refused this actor for good.
        """
        if self._news.error is not None:
            raise self._news.error
        return self._news.status

    def join(self, newest_session: int, should_stop: Callable[[], bool]) -> bool:
        """Wait for a session, see :meth:`.StepSender.join`; :meth:`start` begins to send and receive."""
        return self._sender.join(newest_session, should_stop)

    def start(self) -> None:
        """Begin to send and receive, once the outbox has the session."""
        self._threads = [
            threading.Thread(target=self._sender.send, name="link-send", daemon=True),
            threading.Thread(target=self._receive, name="link-receive", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def finish(self, timeout: float) -> bool:
        """End the session and wait until the learner has settled all of the outbox; return whether it has.

        Raises:
            TransportError: if the learner refused this actor for good.
        """
        self._sender.finishing = True
        self.wake()
        self._news.wait(lambda: not self._outbox.sessions(), timeout)
        if self._news.error is not None:
            raise self._news.error
        return not self._outbox.sessions()

    def close(self) -> None:
        """End the threads and the connection. May be called twice."""
        self._news.close()
        self.wake()
        self._connection.leave()
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._connection.close()

    def _receive(self) -> None:
        while not self._news.is_over:
            if self._news.status.connected:
                self._watch()
            self._news.wait(lambda: False, RETRY_SECONDS)

    def _watch(self) -> None:
        """Take notices in until the learner is lost, or this actor leaves."""
        version, checksum = self._news.policy_identity
        request = messages.WatchRequest(
            run=self.run,
            incarnation=self._sender.incarnation,
            actor=self._actor,
            session=self.session,
            policy_version=version,
            policy_sha256=checksum,
        )
        assembly = PolicyAssembly()
        try:
            for notice in self._connection.watch(request):
                try:
                    self._news.take_in(notice, assembly)
                except CheckpointError:
                    self._report.damaged_policies += 1
        except grpc.RpcError:
            pass  # whether the learner is there, and wants us, the sending thread finds out
