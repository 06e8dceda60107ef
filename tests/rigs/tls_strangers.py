"""Clients that spoil a TLS connection at one point of it, and keep it open."""

import contextlib
import socket
import ssl
import struct

TALK = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
KINDS = ("silent", "rubbish", "half hello", "hello", "endless record", "plain", "handshake", "half request", "unread")


def tls_stranger(address: tuple[str, int], kind: str, source: str = "127.0.0.2") -> socket.socket:
    """Return a connection of a stranger of this kind; one that the server has closed counts too."""
    stream = socket.create_connection(address, timeout=5, source_address=(source, 0))
    with contextlib.suppress(OSError):
        if kind == "rubbish":
            stream.sendall(bytes(range(256)) * 8)
        elif kind in ("half hello", "hello"):
            hello = _hello()
            stream.sendall(hello[: len(hello) // 2] if kind == "half hello" else hello)
        elif kind == "endless record":  # as long as a record may be, and never complete
            stream.sendall(b"\x16\x03\x01" + struct.pack(">H", 1 << 14) + b"\x01" + bytes(9000))
        elif kind == "plain":
            stream.sendall(TALK + b"\r\n")
        elif kind in ("handshake", "half request", "unread"):
            stream = _context().wrap_socket(stream)
            stream.settimeout(5)
            if kind != "handshake":
                stream.sendall(TALK if kind == "half request" else (TALK + b"\r\n") * 100)
    return stream


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def _hello() -> bytes:
    """Return the first message of a handshake."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        _context().wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()
