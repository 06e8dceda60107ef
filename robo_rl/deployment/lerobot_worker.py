"""The process that computes a LeRobot policy, in LeRobot's own environment.

This file imports nothing of robo-rl. :mod:`.lerobot_policy` starts it with LeRobot's interpreter, and a socket as its
standard input. A message is the length of a JSON header (4 bytes, little-endian), the header, and the arrays that it
lists. Whatever libraries print goes to the standard error. The process ends when the other end of the socket is closed.
"""

import json
import os
import socket
import struct
import sys
from typing import Any

sys.path.pop(0)  # the folder of this file, whose modules could hide those of other packages
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch


def receive(connection: socket.socket, size: int) -> bytearray | None:
    """Return ``size`` bytes; None if the other end was closed."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return data


def receive_message(connection: socket.socket) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the header and the arrays by name of the next message; None if the other end was closed."""
    length = receive(connection, 4)
    text = None if length is None else receive(connection, struct.unpack("<I", length)[0])
    if text is None:
        return None
    header, arrays = json.loads(text), {}
    for name, dtype, shape in header.get("arrays", ()):
        if (data := receive(connection, int(np.prod(shape)) * np.dtype(dtype).itemsize)) is None:
            return None
        arrays[name] = np.frombuffer(data, dtype).reshape(shape)
    return header, arrays


def send_message(connection: socket.socket, header: dict[str, Any], data: bytes = b"") -> None:
    """Send a header and the bytes of an array."""
    text = json.dumps(header).encode()
    connection.sendall(struct.pack("<I", len(text)) + text + data)


def load(folder: str) -> Any:
    """Return the policy in a folder."""
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class  # which also registers the configurations of all types

    config = PreTrainedConfig.from_pretrained(folder)
    if getattr(config, "pretrained_backbone_weights", None) is not None:
        config.pretrained_backbone_weights = None  # those in the folder replace them, and they would be downloaded
    return get_policy_class(config.type).from_pretrained(folder, config=config, strict=True)


def action_queue(policy: Any) -> Any:
    """Return the queue of actions that are decided but not returned; None if the policy has none."""
    queues = getattr(policy, "_queues", None)
    return queues.get("action") if isinstance(queues, dict) else getattr(policy, "_action_queue", None)


def forget_actions(policy: Any) -> None:
    """Empty the queue of actions, but keep the latest observations; reset a policy without such a queue."""
    queue = action_queue(policy)
    if queue is None:
        policy.reset()
    else:
        queue.clear()


def batch_of(arrays: dict[str, Any], task: str, device: str) -> dict[str, Any]:
    """Return the observation as LeRobot's evaluation does: float32, a leading axis, images (1, C, H, W) in [0, 1]."""
    batch: dict[str, Any] = {"task": [task]}
    for name, array in arrays.items():
        values = torch.from_numpy(array.copy()).to(device)
        values = values.permute(2, 0, 1).float() / 255 if array.ndim == 3 else values.float()
        batch[name] = values.unsqueeze(0)
    return batch


def answer(policy: Any, header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the actions (n, A) for a message: one, or a whole chunk."""
    if header["begin"]:
        policy.reset()
        if header["seed"] is not None:
            torch.manual_seed(header["seed"] % 2**63)
    elif header["forget"]:
        forget_actions(policy)
    with torch.inference_mode():
        actions = [policy.select_action(batch_of(arrays, header["task"], policy.config.device))]
    if header["chunk"] and (queue := action_queue(policy)) is not None:
        actions += queue
        queue.clear()
    return torch.cat(actions).float().cpu().numpy()


def main(folder: str) -> None:
    """Load the policy in ``folder``, and answer messages until the other end is closed."""
    connection = socket.socket(fileno=os.dup(0))
    policy = load(folder)
    policy.eval()
    torch.manual_seed(0)
    send_message(connection, {"type": policy.config.type})
    while (message := receive_message(connection)) is not None:
        actions = answer(policy, *message)
        send_message(connection, {"shape": list(actions.shape)}, actions.astype("<f4").tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
