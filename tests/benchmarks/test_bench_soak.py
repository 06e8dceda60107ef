"""What `make soak` judges by, and the network that it breaks."""

import importlib
import socket
import threading
from pathlib import Path

import pytest

from ..rigs.tcp_proxy import TcpProxy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def echo(server: socket.socket) -> None:
    """Send back what comes, to one connection after the other."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            while data := connection.recv(1024):
                connection.sendall(data)


def test_a_connection_is_passed_on_cut_and_possible_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        proxy = TcpProxy(server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
            client.sendall(b"hello")
            assert client.recv(1024) == b"hello"
            proxy.cut(3600.0)
            assert is_ended(client)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
            assert is_ended(client), "cut for an hour"
        proxy.cut(0.0)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as client:
            client.sendall(b"again")
            assert client.recv(1024) == b"again"
        proxy.close()


def is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1024) == b""
    except ConnectionResetError:
        return True


def test_memory_and_descriptors_of_the_last_third_are_compared_with_the_first() -> None:
    soak = importlib.import_module("soak")
    steady = [(time / 10, role, 10**8, 20) for time in range(11) for role in ("learner", "actor")]
    assert all(role["is_flat"] for role in soak.flatness(steady).values())
    leak = [(progress, role, int(memory + progress * 10**8), files) for progress, role, memory, files in steady]
    assert not any(role["is_flat"] for role in soak.flatness(leak).values())
    opened = [(progress, role, memory, files + int(30 * progress)) for progress, role, memory, files in steady]
    assert not any(role["is_flat"] for role in soak.flatness(opened).values())
    assert soak.flatness(steady[:4]) == {"learner": None, "actor": None}, "too short to tell"
