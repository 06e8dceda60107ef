"""Folders of sockets in the machine's folder for temporary files: those of killed learners go, no others do."""

import contextlib
import os
import socket
import stat
import tempfile
import time
from pathlib import Path

import pytest

from robo_rl.transport import SOCKET, new_socket_folder


def make_folder(name: str, age: float, listening: bool) -> socket.socket:
    """Make a folder with a socket as a learner ``age`` seconds ago did."""
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / SOCKET))
    if listening:
        listener.listen()
    made = time.time() - age
    os.utime(folder / SOCKET, (made, made))
    return listener


def test_folders_of_killed_learners_are_removed_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket has 107 characters at most
        monkeypatch.setattr(tempfile, "tempdir", short)
        make_folder("robo-rl-dead", 3600, listening=False).close()
        make_folder("robo-rl-young", 1, listening=False).close()
        make_folder("other-dead", 3600, listening=False).close()
        (Path(short) / "robo-rl-view-1").mkdir()
        (Path(short) / "robo-rl-file").mkdir()
        (Path(short) / "robo-rl-file" / SOCKET).touch()
        os.utime(Path(short) / "robo-rl-file" / SOCKET, (0, 0))
        (Path(short) / "robo-rl-link").symlink_to(Path(short) / "other-dead")
        with make_folder("robo-rl-alive", 3600, listening=True):
            made = new_socket_folder()
        assert stat.S_IMODE(made.stat().st_mode) == 0o700 and not list(made.iterdir())
        left = {path.name for path in Path(short).iterdir()} - {made.name}
        names = {"robo-rl-young", "robo-rl-view-1", "robo-rl-file", "robo-rl-link", "robo-rl-alive", "other-dead"}
        assert left == names
        assert (Path(short) / "other-dead" / SOCKET).is_socket(), "what a link leads to is not ours to remove"


def test_a_learner_that_was_stopped_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes what waits in its queue, which is full."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short, contextlib.ExitStack() as waiting:
        monkeypatch.setattr(tempfile, "tempdir", short)
        listener = waiting.enter_context(make_folder("robo-rl-stopped", 3600, listening=False))
        listener.listen(0)
        with pytest.raises(BlockingIOError):
            while True:
                client = waiting.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(str(Path(short) / "robo-rl-stopped" / SOCKET))
        made = new_socket_folder()
        assert {path.name for path in Path(short).iterdir()} == {made.name, "robo-rl-stopped"}
