"""Policies as messages: safetensors with a version and a hash, split into chunks."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from robo_rl.core import CheckpointError, State

from .messages_pb2 import PolicyChunk

CHUNK_BYTES = 1 << 20
HEADER_BYTES = 4096
"""Allowance for the header of a policy [bytes]: other versions of safetensors may write a longer one for the same
arrays.
"""


@dataclass(frozen=True)
class PolicyMessage:
    """Policy ready to be sent.

    Attributes:
        version: number of learner steps when it was published.
        data: contents of the safetensors file.
        sha256: SHA-256 of ``data``.
    """

    version: int
    data: bytes
    sha256: bytes

    @property
    def identity(self) -> tuple[int, bytes]:
        """Version and hash. The version alone is not unique: a learner that resumes a checkpoint repeats it."""
        return self.version, self.sha256

    def chunks(self) -> Iterator[PolicyChunk]:
        """Yield the chunks of the policy in order."""
        for offset in range(0, len(self.data), CHUNK_BYTES):
            yield PolicyChunk(
                version=self.version,
                sha256=self.sha256,
                total_bytes=len(self.data),
                offset=offset,
                data=self.data[offset : offset + CHUNK_BYTES],
            )


def pack_policy(version: int, state: State) -> PolicyMessage:
    """Return ``state`` as a message."""
    data = save_safetensors({key: np.asarray(value, order="C") for key, value in state.items()})
    return PolicyMessage(version, data, hashlib.sha256(data).digest())


def largest_policy(state: State) -> int:
    """Return the largest size of a message with arrays like those of ``state`` [bytes]."""
    return len(save_safetensors({key: np.asarray(value, order="C") for key, value in state.items()})) + HEADER_BYTES


def unpack_policy(message: PolicyMessage) -> State:
    """Return the policy's arrays.

    Raises:
        CheckpointError: if the hash does not match, the data is not a safetensors file, or a value is not finite.
    """
    if hashlib.sha256(message.data).digest() != message.sha256:
        raise CheckpointError(f"policy {message.version}: its SHA-256 differs; it was damaged in transit")
    try:
        state: State = load_safetensors(message.data)
    except (SafetensorError, ValueError, KeyError, struct.error) as error:
        raise CheckpointError(f"policy {message.version}: not a safetensors file ({error})") from error
    for name, array in state.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"policy {message.version}: {name!r} is not finite")
    return state


class PolicyAssembly:
    """Assembly of a policy from its chunks. An incomplete policy is dropped when another one begins.

    Args:
        most_bytes: size of the largest accepted policy [bytes].
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._data = bytearray()
        self._identity: tuple[int, bytes, int] | None = None
        self._refused: tuple[int, bytes, int] | None = None

    def add(self, chunk: PolicyChunk) -> PolicyMessage | None:
        """Add the next chunk; return the policy once it is complete. The rest of a refused policy is ignored.

        Raises:
            CheckpointError: if the chunk does not continue the policy, or the policy is too large.
        """
        identity = (chunk.version, chunk.sha256, chunk.total_bytes)
        if identity == self._refused and chunk.offset:
            return None
        if chunk.offset == 0:
            self._data, self._identity, self._refused = bytearray(), identity, None
        if chunk.total_bytes > self._most_bytes:
            text = (
                f"it has {chunk.total_bytes} bytes, but a policy of this actor's agent has at most {self._most_bytes}; "
                "install the same version of robo-rl on learner and actor"
            )
            self._refuse(identity, text)
        is_empty = not chunk.data and chunk.total_bytes > 0  # any number of empty chunks would fit
        if (
            is_empty
            or identity != self._identity
            or chunk.offset != len(self._data)
            or len(self._data) + len(chunk.data) > chunk.total_bytes
        ):
            self._refuse(identity, "a chunk of it is missing")
        self._data += chunk.data
        if len(self._data) < chunk.total_bytes:
            return None
        message = PolicyMessage(chunk.version, bytes(self._data), chunk.sha256)
        self._data, self._identity = bytearray(), None
        return message

    def _refuse(self, identity: tuple[int, bytes, int], text: str) -> NoReturn:
        self._data, self._identity, self._refused = bytearray(), None, identity
        raise CheckpointError(f"policy {identity[0]}: {text}")
