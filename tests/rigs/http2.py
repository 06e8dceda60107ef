"""HTTP/2 connections by hand, for clients that do what gRPC's never do."""

import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS = 0, 1, 3, 4
ACKNOWLEDGED, END_OF_HEADERS = 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def call_headers(path: str, address: str, **metadata: str) -> bytes:
    """Return the header block that begins a call of gRPC, with more ``metadata``."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": address,
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in (fields | metadata).items())


def connected(address: str) -> socket.socket:
    """Return a connection to HOST:PORT over which both sides have sent their settings."""
    host, _, port = address.rpartition(":")
    stream = socket.create_connection((host, int(port)), timeout=10)
    stream.sendall(PREFACE + frame(SETTINGS, 0, 0))
    stream.recv(100)
    stream.sendall(frame(SETTINGS, ACKNOWLEDGED, 0))
    return stream


def wait_for_end(stream: socket.socket, seconds: float) -> None:
    """Read until the other side closes the connection.

    Raises:
        TimeoutError: if it does not within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    try:
        while True:
            stream.settimeout(max(deadline - time.monotonic(), 0.001))
            if not stream.recv(1 << 16):
                return
    except (ConnectionResetError, BrokenPipeError):
        return


def _text(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data)]) + data
