"""Actor's end of the transport. It reconnects automatically and never blocks the control loop."""

import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import grpc

from robo_rl.core import (
    CheckpointError,
    Closing,
    EnvSpec,
    MonotonicClock,
    Repetitions,
    State,
    TransitionOutbox,
)

from . import messages_pb2 as messages
from .config import TransportConfig
from .connection import Connection, SilenceNotice
from .incoming import LearnerNews
from .memory import keep_freed_memory
from .outgoing import ActorReport
from .policy import PolicyAssembly, largest_policy
from .sending import RETRY_SECONDS, StepSender, largest_step
from .views import LinkStatus


class LearnerLink(Closing):
    """Link of an actor to its learner. It sends the outbox and receives policies and guidance in its own threads.

    Args:
        config: configuration of the transport.
        actor: identity of the robot or simulator; with certificates, the name in them.
        spec: spec of the environment.
        facts: JSON values, besides the spec, that must agree with those of the learner.
        outbox: encoded steps, which are removed once the learner has settled them.
        run: run that the outbox belongs to; empty: none yet.
        notify: called with messages for the operator, for example why the learner does not answer.

    Attributes:
        report, notify, show, show_scene, end_run: methods for data that is sent with the steps, see
            :class:`.ActorReport`.
        take_orders, take_policy, wait_for_policy: methods for data that :meth:`receive` receives, see
            :class:`.LearnerNews`.
        wake: signals that the outbox has something to send.

    Except for ``wait_for_policy``, none of these wait for the network.

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
        notify: Callable[[str], None] = print,
    ) -> None:
        step_bytes = largest_step(config, spec)
        keep_freed_memory()
        self._actor = actor
        self._notify = notify
        self._repetitions = Repetitions()
        self._outbox = outbox
        self._news, wake_event = LearnerNews(), threading.Event()
        self.take_orders, self.take_policy = self._news.take_orders, self._news.take_policy
        self.wait_for_policy = self._news.wait_for_policy
        self.wake = wake_event.set
        self._report = ActorReport(self.wake)
        self.report, self.notify = self._report.report, self._report.notify
        self.show, self.show_scene = self._report.show, self._report.show_scene
        self.end_run = self._report.end_run
        facts_json = json.dumps({"spec": spec.to_json(), **facts})
        self._connection = Connection(config, actor, SilenceNotice(config, notify, MonotonicClock()))
        self._sender = StepSender(
            config, actor, facts_json, step_bytes, outbox, run, self._connection, self._news, wake_event, self._report
        )
        self._threads: list[threading.Thread] = []

    @property
    def run(self) -> str:
        """Run of the learner, once the actor has joined."""
        return self._sender.run

    @property
    def session(self) -> int:
        """Number of this actor's session, once the actor has joined."""
        return self._sender.session

    @property
    def status(self) -> LinkStatus:
        """Current status of the link.

        Raises:
            TransportError: if the learner refused this actor permanently.
        """
        if self._news.error is not None:
            raise self._news.error
        return self._news.status

    def join(self, newest_session: int, should_stop: Callable[[], bool]) -> bool:
        """Wait for a session, see :meth:`.StepSender.join`."""
        return self._sender.join(newest_session, should_stop)

    def start(self) -> None:
        """Begin to send, once the outbox has the session."""
        self._begin("link-send", self._sender.send)

    def receive(self, policy: State) -> None:
        """Begin to receive guidance, and policies that are no larger than ``policy``, the agent's own."""
        self._begin("link-receive", partial(self._receive, largest_policy(policy)))

    def _begin(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def finish(self, timeout: float) -> bool:
        """End the session and wait until the learner has settled the whole outbox; return whether it has.

        Raises:
            TransportError: if the learner refused this actor permanently.
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

    def _receive(self, most_bytes: int) -> None:
        while not self._news.is_over:
            if self._news.status.connected:
                self._watch(PolicyAssembly(most_bytes))
            self._news.wait(lambda: False, RETRY_SECONDS)

    def _watch(self, assembly: PolicyAssembly) -> None:
        """Process notices until the connection to the learner is lost or this actor leaves."""
        version, checksum = self._news.policy_identity
        request = messages.WatchRequest(
            run=self.run,
            incarnation=self._sender.incarnation,
            actor=self._actor,
            session=self.session,
            policy_version=version,
            policy_sha256=checksum,
        )
        try:
            for notice in self._connection.watch(request):
                try:
                    self._news.take_in(notice, assembly)
                except CheckpointError as error:
                    self._report.damaged_policies += 1
                    if self._repetitions.count("policy"):
                        self._notify(f"The learner's policy is not used: {error}")
        except grpc.RpcError:
            pass  # the sending thread finds out whether the learner is alive and accepts this actor
