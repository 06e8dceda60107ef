"""Connections of strangers, which the learner ends."""

import errno
import os
import socket
import threading

import pytest

from robo_rl.transport.strangers import Strangers, end_connection


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "both protocols"])
def test_only_the_named_connection_ends(family: socket.AddressFamily) -> None:
    """gRPC listens on sockets for both protocols, and names an IPv4 client by its IPv4 address."""
    pipe = socket.socketpair()  # of the process: such sockets have no address
    with pipe[0], pipe[1], socket.socket(family) as listener:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("127.0.0.1" if family == socket.AF_INET else "::", 0))
        listener.listen()
        address = "127.0.0.1", listener.getsockname()[1]
        with socket.create_connection(address) as stranger, socket.create_connection(address) as other:
            ends = [listener.accept()[0] for _ in range(2)]
            end_connection(f"ipv4:127.0.0.1:{stranger.getsockname()[1]}")
            other.sendall(b"a")
            assert ends[0].recv(1) == b"", "nothing is received any more"
            assert ends[1].recv(1) == b"a"
            for end in ends:
                end.close()


def test_a_process_without_descriptors_forgets_no_trusted_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that it cannot list then are not gone."""
    tries, duplicate, is_full = 0, os.dup, threading.Event()

    def dup(descriptor: int) -> int:
        nonlocal tries
        if is_full.is_set():
            tries += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return duplicate(descriptor)

    monkeypatch.setattr(os, "dup", dup)
    strangers = Strangers(0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = listener.getsockname()
        with socket.create_connection(address) as trusted:
            strangers.trust(f"ipv4:127.0.0.1:{trusted.getsockname()[1]}")
            is_full.set()
            strangers.watch(address[1])
            try:
                while tries < 2:
                    threading.Event().wait(0.01)
                is_full.clear()
                with listener.accept()[0] as end, socket.create_connection(address) as stranger:
                    with listener.accept()[0] as strange_end:
                        stranger.settimeout(60)
                        strange_end.settimeout(60)
                        assert strange_end.recv(1) == b"", "the stranger is closed"
                    with pytest.raises(BlockingIOError):  # a connection that is closed has an end instead
                        end.recv(1, socket.MSG_DONTWAIT)
            finally:
                strangers.close()
