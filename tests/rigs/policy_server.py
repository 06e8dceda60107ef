"""Policy servers: one of the platform, and one of others that can misbehave."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from websockets.sync.server import ServerConnection, serve

from robo_rl.app import load_policy
from robo_rl.app.policy_service import PolicyService
from robo_rl.deployment.arrays import packed, unpacked

from .server_thread import ServerThread

Answer = Callable[[dict[str, Any]], "dict[str, Any] | str | bytes | None"]


@contextmanager
def foreign_server(
    answer: Answer, metadata: Callable[[], dict[str, Any]] = lambda: {"model": "foreign"}
) -> Iterator[str]:
    """Serve, within the context, what ``answer`` returns for an observation: a message, text, bytes; None: nothing.

    It speaks the protocol of openpi's servers, and says ``metadata`` about itself. Yields its address.
    """

    def talk(connection: ServerConnection) -> None:
        connection.send(packed(metadata()))
        for data in connection:
            assert isinstance(data, bytes)
            reply = answer(unpacked(data, "a request"))
            if reply is None:
                time.sleep(1.0)
            else:
                connection.send(packed(reply) if isinstance(reply, dict) else reply)

    with serve(talk, "127.0.0.1", 0, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def service(run: Path, key: str | None = None) -> Iterator[str]:
    """Serve the policy of a run within the context. Yields its address."""
    thread = ServerThread(lambda: PolicyService(load_policy(run), "127.0.0.1", 0, key))
    try:
        yield thread.server.address
    finally:
        thread.stop()


def straight(observation: dict[str, Any]) -> dict[str, Any]:
    """Return a chunk of two actions that move the arm of ``reach`` straight to its target."""
    action = np.clip(5 * np.asarray(observation["object"])[:3], -1, 1)
    return {"actions": np.stack([action, action])}
