"""Rubbish for a learner: raw bytes on its socket, requests cut, changed and made up, pickles that would act."""

import contextlib
import json
import os
import pickle
import random
import socket
from pathlib import Path

import grpc

from robo_rl.transport import RecordEncoder
from robo_rl.transport import messages_pb2 as messages
from robo_rl.transport.service import CONTROL, EXCHANGE, JOIN, PROTOCOL, WATCH

from .replay_episodes import SPEC
from .transport_rig import steps_of


class Canary:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


class MalformedPackets:
    """Sends them to a learner of the specification in ``replay_episodes``, the same ones for a seed.

    Args:
        address: ``unix:/path`` of the learner.
        canary: folder that is there once something has loaded a pickle.
        seed: of the random numbers.
    """

    def __init__(self, address: str, canary: Path, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._path = address.removeprefix("unix:")
        self._canary = pickle.dumps(Canary(canary))
        self._channel = grpc.insecure_channel(address)
        self._calls = {call.name: self._channel.unary_unary(call.path) for call in (JOIN, EXCHANGE, CONTROL)}
        self._calls["Watch"] = lambda data, timeout: list(self._channel.unary_stream(WATCH.path)(data, timeout=timeout))
        facts = json.dumps({"spec": SPEC.to_json()})
        join = messages.JoinRequest(protocol=PROTOCOL, actor="robot", facts=facts).SerializeToString()
        self._joined = messages.JoinReply.FromString(self._calls["Join"](join, timeout=60))
        watch = self._request(messages.WatchRequest).SerializeToString()
        self._whole = {"Join": [join], "Control": [b"\n\x05pause"], "Watch": [watch], "Exchange": self._exchanges()}
        self.sent = self.refused = 0

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def send(self, count: int) -> None:
        """Send ``count`` packets, one in a hundred past gRPC."""
        for _ in range(count):
            self.sent += 1
            if self.sent % 100 == 1:
                self._send_raw()
                continue
            name = "Watch" if self.sent % 50 == 0 else self._random.choice(["Join", "Exchange", "Exchange", "Control"])
            try:
                self._calls[name](self._packet(name), timeout=0.2 if name == "Watch" else 60)
            except grpc.RpcError:
                self.refused += 1

    def _request(self, kind, **fields):
        joined = self._joined
        return kind(run=joined.run, incarnation=joined.incarnation, actor="robot", session=joined.session, **fields)

    def _exchanges(self) -> list[bytes]:
        """Return requests that are right but for a pickle, and some that are right in all, by image coding."""
        pickled = messages.Record(
            sequence=0, observation=self._canary, step=self._canary, images=[self._canary], first_images=[self._canary]
        )
        records = [[self._canary, pickled.SerializeToString()]]
        for compression in (None, "zstd", "jpeg"):
            encoder = RecordEncoder(SPEC, compression)
            records.append([encoder.encode(step) for step in steps_of(self._joined.session, [4])])
        session = self._joined.session
        kind = messages.ExchangeRequest
        return [self._request(kind, record_session=session, records=batch).SerializeToString() for batch in records]

    def _packet(self, name: str) -> bytes:
        kind = self._random.randrange(6)
        if kind == 0:
            return self._canary
        if kind == 1:
            return self._random.randbytes(self._random.randint(0, 300))
        while True:
            data = self._mutated(self._random.choice(self._whole[name]))
            if name != "Control" or data not in self._whole[name]:
                return data

    def _mutated(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            position = self._random.randrange(len(changed))
            kind = self._random.randrange(3)
            if kind == 0:
                changed[position] = self._random.randrange(256)
            elif kind == 1:
                del changed[position : position + self._random.randint(1, 20)]
            else:
                changed[position:position] = self._random.randbytes(self._random.randint(1, 20))
            if not changed:
                break
        return bytes(changed)

    def _send_raw(self) -> None:
        data = self._random.choice(
            [
                self._canary,
                bytes(5000),
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self._random.randbytes(2000),
                self._random.randbytes(100_000),
            ]
        )
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(1)
            stream.connect(self._path)
            with contextlib.suppress(OSError):
                stream.sendall(data)
