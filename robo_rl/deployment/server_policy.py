"""Policies computed by a server that uses the protocol of openpi: msgpack over a websocket."""

import hashlib
import os
import socket
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from robo_rl.core import (
    ConfigError,
    DataError,
    EnvSpec,
    Observation,
    RoboRLError,
    announce,
    is_loopback,
    printable,
)

from .arrays import MOST_BYTES, packed, unpacked
from .description import PolicyDescription

ADDRESS_VARIABLE = "ROBO_RL_POLICY_SERVER"
"""Environment variable that names the address of a server on another machine."""
KEY_VARIABLE = "ROBO_RL_POLICY_KEY"
"""Environment variable with the key of the server, if it has one."""
DESCRIPTION = "robo_rl"
"""Key of the description of the policy in the first message of a server of robo-rl."""
CONNECT_SECONDS = 10.0
FIRST_SECONDS = 120.0
"""Time limit for the first answer [s], before which a server may compile its model."""
ANSWER_SECONDS = 10.0
"""Time limit for all other answers [s]."""
RETRY_SECONDS = 30.0
"""Default time for which requests to a failing server are repeated [s]."""
PAUSE_SECONDS = 0.5
"""Pause between two attempts [s]."""


class PolicyServerError(RoboRLError):
    """Raised if a policy server cannot be reached, is silent for too long, or returns no actions."""


@dataclass(frozen=True)
class Translation:
    """Names and units of a server that does not run robo-rl.

    Attributes:
        inputs: observation key by the server's name for it; empty: every observation, by its key.
        prompt: instruction in words; None: none is sent.
        low: the server's values (A,) of the actions -1; empty: -1.
        high: the server's values (A,) of the actions 1; empty: 1.
        executed: number of actions of each chunk that are executed; None: all.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    prompt: str | None = None
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    executed: int | None = None


class ServerPolicy:
    """A :class:`~robo_rl.core.Policy` that a server computes; it does not explore.

    A server of robo-rl describes its policy, which is compared with the task. For other servers, ``translation`` states
    their names and units. If a server fails, connection and request are repeated for a while. Meanwhile the robot holds
    still, because its driver receives no action.

    Args:
        address: address of the server, ``ws://HOST:PORT`` or ``wss://HOST:PORT``.
        translation: names and units of the server.
        retry_seconds: time for which requests to a failing server are repeated [s]; 0: they are not.

    Attributes:
        name: name for messages.
        announces: whether operators receive a message when the server fails, and when it has recovered.
        fingerprint: hash of the server's description of itself, and of the translation.
        description: description of the policy, from a server of robo-rl; None from others.

    Raises:
        ConfigError: if the address is invalid, or of another machine and not that in :data:`ADDRESS_VARIABLE`.
        DataError: if the description is damaged.
        PolicyServerError: if the server cannot be reached.
    """

    def __init__(
        self, address: str, translation: Translation | None = None, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._address, self._retry_seconds, self.announces = address, retry_seconds, True
        self.name, self._translation = f"of the server {address}", translation or Translation()
        self._keys = dict(self._translation.inputs)
        self._chunk: list[NDArray[np.float32]] = []
        self._size, self._seconds = 0, FIRST_SECONDS
        metadata = self._open()
        self.description = None
        if DESCRIPTION in metadata:
            self.description = PolicyDescription.from_json(metadata[DESCRIPTION], f"the policy server {address}")
        self.fingerprint = self._fingerprint(metadata)

    def _open(self) -> dict[str, Any]:
        """Connect to the server, and return its description of itself."""
        host, port = check_address(self._address)
        key = os.environ.get(KEY_VARIABLE)
        try:
            self._connection = connect(
                self._address,
                sock=_connected(host, port),  # otherwise websockets would follow redirects to other machines
                additional_headers={"Authorization": f"Api-Key {key}"} if key else None,
                compression=None,
                max_size=MOST_BYTES,
                open_timeout=CONNECT_SECONDS,
                close_timeout=1.0,
                ping_interval=None,  # servers compute in the thread that answers pings
                proxy=None,
            )
        except (OSError, ValueError, WebSocketException) as error:
            reason = f"the policy server {self._address} cannot be reached: {_reason(error)}"
            raise PolicyServerError(reason) from error
        self._close = weakref.finalize(self, self._connection.close)
        return self._receive(CONNECT_SECONDS)

    def _fingerprint(self, metadata: dict[str, Any]) -> str:
        return hashlib.sha256(f"{sorted(metadata.items())} {self._translation}".encode()).hexdigest()[:16]

    @property
    def action_chunk(self) -> int:
        """Number of actions that are executed of a chunk, if it is known; otherwise 1."""
        known = 1 if self.description is None else self.description.action_chunk
        return known if self._translation.executed is None else self._translation.executed

    def differences(self, spec: EnvSpec) -> list[str]:
        """Return one line for each point in which an environment of ``spec`` does not match the policy.

        The policy acts in that environment from then on.
        """
        self._size, translation = spec.action.shape[0], self._translation
        if self.description is not None and not translation.inputs:
            self._keys = {key: key for key in self.description.observed}
            lines = self.description.spec.differences(spec)
        else:
            self._keys = dict(translation.inputs) or {key: key for key in spec.observation}
            lines = [
                f"input {name!r} of the server: no observation {key!r}; the task has {', '.join(spec.observation)}"
                for name, key in self._keys.items()
                if key not in spec.observation
            ]
        for end, values in (("low", translation.low), ("high", translation.high)):
            if values and len(values) != self._size:
                lines.append(f"action_{end}: {len(values)} values for actions of {self._size} elements")
        return lines

    def act(self, observation: Observation, *, explore: bool = False) -> NDArray[np.float32]:
        """Return an action (A,) in [-1, 1]; ``explore`` has no effect. See :meth:`decide` for errors."""
        if not self._chunk:
            self._chunk = list(self.decide(observation))
        return self._chunk.pop(0)

    def forget_plan(self, *, explore: bool = False) -> None:
        """Discard the rest of an action chunk."""
        self._chunk = []

    def decide(self, observation: Observation) -> NDArray[np.float32]:
        """Return an action chunk (h, A) in [-1, 1], to which the server's actions are clipped.

        If the server fails, the request is repeated until the time limit, and operators receive a message.

        Raises:
            ConfigError: if the server computes another policy after a failure.
            PolicyServerError: if the server reports an error, is silent for too long, or does not return actions (h, A)
                of finite numbers.
        """
        failed: float | None = None
        pause = 0.0  # the first retry is immediate, because a robot's watchdog may wait for less than a second
        while True:
            try:
                chunk = self._ask(observation)
            except PolicyServerError as error:
                if failed is None:
                    failed = time.monotonic()
                    if self._retry_seconds:
                        self._announce(f"{error}. The robot holds still; asking again for {self._retry_seconds:g} s")
                remaining = failed + self._retry_seconds - time.monotonic()
                if remaining <= 0:
                    raise
                time.sleep(min(pause, remaining))
                pause = PAUSE_SECONDS
                # A restarted server may compile its model.
                self._seconds = min(FIRST_SECONDS, max(remaining, ANSWER_SECONDS))
            else:
                if failed is not None:
                    self._announce(f"the policy {self.name} answers again after {time.monotonic() - failed:.1f} s")
                return chunk

    def _announce(self, text: str) -> None:
        if self.announces:
            announce(text)

    def _ask(self, observation: Observation) -> NDArray[np.float32]:
        """Return one answer of the server, after connecting to it again if it failed before."""
        if not self._close.alive and self._fingerprint(self._open()) != self.fingerprint:
            self._close()
            raise ConfigError(
                f"the policy {self.name}: the server computes another policy than before. Start a new run, or serve "
                "the previous one again and resume"
            )
        message: dict[str, Any] = {name: observation[key] for name, key in self._keys.items()}
        if self._translation.prompt is not None:
            message["prompt"] = self._translation.prompt
        try:
            self._connection.send(packed(message))
        except (OSError, WebSocketException) as error:
            raise self._failure(f"did not take an observation: {_reason(error)}") from error
        actions = self._receive(self._seconds).get("actions")
        self._seconds = ANSWER_SECONDS
        if (
            not isinstance(actions, np.ndarray)
            or actions.ndim != 2
            or actions.shape[1] != self._size
            or not len(actions)
        ):
            found = f"shape {actions.shape}" if isinstance(actions, np.ndarray) else type(actions).__name__
            raise self._failure(f"returned actions of {found}, expected shape (h, {self._size})")
        if not np.isfinite(actions).all():
            raise self._failure(f"returned actions that are not finite: {actions.ravel()[:8]}")
        chunk = actions[: self._translation.executed].astype(np.float64)
        low = np.array(self._translation.low or [-1.0] * self._size)
        high = np.array(self._translation.high or [1.0] * self._size)
        scaled: NDArray[np.float32] = ((2 * chunk - low - high) / (high - low)).clip(-1, 1).astype(np.float32)
        return scaled

    def _receive(self, seconds: float) -> dict[str, Any]:
        try:
            data = self._connection.recv(timeout=seconds)
        except TimeoutError as error:
            raise self._failure(f"was silent for {seconds:g} s") from error
        except (OSError, WebSocketException) as error:
            raise self._failure(f"ended the connection: {_reason(error)}") from error
        if isinstance(data, str):  # servers report an error as text, openpi's with a traceback
            raise self._failure(f"reported: {printable(data.strip().rpartition(chr(10))[2])[-400:]}")
        try:
            return unpacked(data, "its answer")
        except DataError as error:
            raise self._failure(f"gave no answer: {error}") from error

    def _failure(self, what: str) -> PolicyServerError:
        """Close the connection, because a late answer would be taken for the next one, and return an error."""
        self._close()
        return PolicyServerError(f"the policy {self.name}: it {what}")


def check_address(address: str) -> tuple[str, int]:
    """Return host and port of an address, which may come from another user's run folder.

    Raises:
        ConfigError: if it is invalid, or of another machine and not the one in :data:`ADDRESS_VARIABLE`.
    """
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(f"a policy server: expected ws://HOST:PORT or wss://HOST:PORT, got {printable(address)!r}")
    host = parts.hostname or ""
    if not is_loopback(host) and os.environ.get(ADDRESS_VARIABLE) != address:
        raise ConfigError(
            f"the policy server {printable(address)} is on another machine, which would see all observations: set the "
            f"environment variable {ADDRESS_VARIABLE}={printable(address)} if it is yours"
        )
    return host, parts.port or (443 if parts.scheme == "wss" else 80)


def _connected(host: str, port: int) -> socket.socket:
    connected = socket.create_connection((host, port), CONNECT_SECONDS)
    connected.settimeout(None)  # because the server may be idle for longer between two answers
    return connected


def _reason(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        if status in (401, 403):
            return f"it refused the key ({status}): set {KEY_VARIABLE}"
        return f"it answered with status {status}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return printable(str(error)) or type(error).__name__
