"""A process of strangers that hold connections to an address, and connect again at once when one is closed."""

import contextlib
import select
import socket
import sys

from .http2 import PREFACE, SETTINGS, frame


def main(host: str, port: int, count: int) -> None:
    """Hold ``count`` connections until this process is killed."""
    poll, held = select.poll(), {}

    def connect() -> None:
        stranger = socket.socket()
        stranger.setblocking(False)
        stranger.connect_ex((host, port))
        held[stranger.fileno()] = stranger
        poll.register(stranger, select.POLLOUT)

    for _ in range(count):
        connect()
    print("ready", flush=True)
    while True:
        for number, event in poll.poll():
            stranger = held[number]
            with contextlib.suppress(OSError):
                if event & select.POLLOUT:
                    stranger.sendall(PREFACE + frame(SETTINGS, 0, 0))
                    poll.modify(stranger, select.POLLIN)
                    continue
                if stranger.recv(4096):
                    continue
            poll.unregister(stranger)
            held.pop(number).close()
            connect()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
