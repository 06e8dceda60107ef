"""Commands of an operator to a running learner."""

import re
import time
from typing import Any

import grpc

from robo_rl.core import TransportError

from . import messages_pb2 as messages
from .config import TransportConfig
from .keys import OPERATOR
from .service import CONTROL, channel_maker, metadata

COMMANDS = {
    "pause": "actors begin no new episode",
    "resume": "actors continue",
    "checkpoint": "write a checkpoint now",
    "stop": "write a checkpoint and end the run",
    "actors N": "run N of the learner's own actors: more are started, or the newest leave",
}

RETRY_SECONDS = 0.05
"""Pause between two attempts to reach a learner that has no room for another connection [s]."""

_ACTORS = re.compile("actors ([0-9]{1,2})")


def is_command(text: str) -> bool:
    """Return whether ``text`` is one of :data:`COMMANDS`, with a number in place of N."""
    return _ACTORS.fullmatch(text) is not None or (text in COMMANDS and " " not in text)


def wanted_actors(command: str) -> int | None:
    """Return the N of ``actors N``, or None for other commands."""
    match = _ACTORS.fullmatch(command)
    return None if match is None else int(match[1])


def send_command(config: TransportConfig, command: str, run: str = "") -> str:
    """Send one of :data:`COMMANDS` to the learner; return its answer.

    Args:
        config: configuration of the transport.
        command: command to send.
        run: run that the learner must belong to; empty: any run.

    Raises:
        TransportError: if the learner cannot be reached or refuses.
    """
    with channel_maker(config, OPERATOR)() as channel:
        request = messages.ControlRequest(command=command, run=run)
        try:
            reply = _call(channel, request, config)
        except grpc.RpcError as error:
            advice = ""
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                advice = ". Give run=FOLDER of a run on this machine, or transport.address as its learner printed it"
            raise TransportError(
                f"the learner at {config.address} did not accept {command!r}: {error.details()}{advice}"
            ) from error
    return f"run {reply.run}: {reply.message}"


def _call(channel: grpc.Channel, request: Any, config: TransportConfig) -> Any:
    """Return the reply. Retry until the time-out, as unauthenticated clients may briefly occupy all connections."""
    call = channel.unary_unary(CONTROL.path, CONTROL.request.SerializeToString, CONTROL.reply.FromString)
    token = metadata(config.token())
    deadline = time.monotonic() + config.timeout_seconds
    while True:
        try:
            return call(request, timeout=max(deadline - time.monotonic(), RETRY_SECONDS), metadata=token)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() >= deadline:
                raise
        time.sleep(RETRY_SECONDS)
