"""Connections of strangers, which the learner ends."""

import socket

import pytest

from robo_rl.transport.strangers import end_connection


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
