"""Process that computes a LeRobot policy, in LeRobot's own environment.

This file imports nothing of robo-rl. :mod:`.lerobot_policy` starts it with LeRobot's interpreter, and with a socket as
its standard input. A message is the length of a JSON header (4 bytes, little-endian), the header, and the arrays that
it lists. All output of libraries goes to the standard error. The process ends when the other end closes the socket.
"""

import dataclasses
import importlib
import importlib.util
import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.pop(0)  # the folder of this file, whose modules could hide those of other packages
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# not a folder, so that transformers imports no code that comes with a model
os.environ["HF_MODULES_CACHE"] = os.devnull

import numpy as np
import torch

ADVICE = "Another version wrote the folder, probably a newer one: name an environment with that version"


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


class FolderError(Exception):
    """Raised if the folder and the installed lerobot do not match."""


@dataclasses.dataclass
class Pipeline:
    """Policy and its processors: functions of a batch of observations, and of an action (1, A)."""

    policy: Any
    preprocessor: Callable[[Any], Any] = lambda batch: batch
    postprocessor: Callable[[Any], Any] = lambda action: action

    def reset(self) -> None:
        """Begin an episode."""
        for each in (self.policy, self.preprocessor, self.postprocessor):
            if hasattr(each, "reset"):
                each.reset()


def load(folder: str) -> Pipeline:
    """Return the policy in a folder.

    Raises:
        FolderError: if another version of lerobot than the installed one wrote it.
    """
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies import factory  # this import also registers the configurations of all policy types

    files = [Path(folder) / f"policy_{name}.json" for name in ("preprocessor", "postprocessor")]
    has_processors = all(file.exists() for file in files)
    check_version(has_processors, hasattr(factory, "make_pre_post_processors"))
    check_config(json.loads((Path(folder) / "config.json").read_text()), PreTrainedConfig)
    config = PreTrainedConfig.from_pretrained(folder)
    if getattr(config, "pretrained_backbone_weights", None) is not None:
        # otherwise they would be downloaded, only to be replaced by those in the folder
        config.pretrained_backbone_weights = None
    policy = factory.get_policy_class(config.type).from_pretrained(folder, config=config, strict=True)
    if not has_processors:
        return Pipeline(policy)
    first, last = ([step["registry_name"] for step in json.loads(file.read_text())["steps"]] for file in files)
    check_steps(first + last, config)
    # The device of the training may not exist on this machine. The configuration has chosen one that does.
    device = {"device_processor": {"device": str(config.device)}} if "device_processor" in first else {}
    return Pipeline(
        policy, *factory.make_pre_post_processors(config, pretrained_path=folder, preprocessor_overrides=device)
    )


def version() -> str:
    """Return the name and version of the installed lerobot."""
    import lerobot

    return f"lerobot {getattr(lerobot, '__version__', 'of an unknown version')}"


def check_version(has_processors: bool, needs_processors: bool) -> None:
    """Reject a folder with processors if lerobot has none, and a folder without processors if lerobot needs them."""
    if has_processors and not needs_processors:
        raise FolderError(
            f"the policy was trained by LeRobot 0.4 or newer, and {version()} has no processors (policy_*.json). "
            "Name an environment with the version that trained it"
        )
    if needs_processors and not has_processors:
        raise FolderError(
            f"policy_preprocessor.json is missing, with which {version()} normalises. The folder is incomplete, or "
            "LeRobot 0.3 wrote it: then name an environment with lerobot 0.3.2, or try to convert the folder with "
            "python -m lerobot.processor.migrate_policy_normalization"
        )


def check_config(values: dict[str, Any], configs: Any) -> None:
    """Reject a type of policy, or options of one, that the installed lerobot does not have."""
    kind, known = values["type"], configs.get_known_choices()
    if kind not in known:
        raise FolderError(f"{version()} has no policies of type {kind!r}, only {', '.join(sorted(known))}. {ADVICE}")
    options = {field.name for field in dataclasses.fields(known[kind])}
    if unknown := sorted(set(values) - options - {"type"}):
        raise FolderError(f"config.json has options of {kind} that {version()} lacks: {', '.join(unknown)}. {ADVICE}")


def check_steps(steps: list[str], config: Any) -> None:
    """Reject processor steps that the installed lerobot does not have."""
    from lerobot.processor import ProcessorStepRegistry

    module = type(config).__module__.replace("configuration_", "processor_")
    if importlib.util.find_spec(module) is not None:
        importlib.import_module(module)  # registers the steps of this type of policy
    if unknown := sorted(set(steps) - set(ProcessorStepRegistry.list())):
        raise FolderError(
            f"the processors have steps that {version()} lacks, or registers outside the policy: {', '.join(unknown)}. "
            f"{ADVICE}"
        )


def action_queue(policy: Any) -> Any:
    """Return the queue of decided actions that were not returned yet; None if the policy has none."""
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
    """Return the observation in the format of LeRobot: float32, a leading axis, images (1, C, H, W) in [0, 1]."""
    batch: dict[str, Any] = {"task": [task]}
    for name, array in arrays.items():
        values = torch.from_numpy(array.copy()).to(device)
        values = values.permute(2, 0, 1).float() / 255 if array.ndim == 3 else values.float()
        batch[name] = values.unsqueeze(0)
    return batch


def answer(pipeline: Pipeline, header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the actions (n, A) for a message: one, or a whole chunk."""
    policy = pipeline.policy
    if header["begin"]:
        pipeline.reset()
        if header["seed"] is not None:
            torch.manual_seed(header["seed"] % 2**63)
    elif header["forget"]:
        forget_actions(policy)
    with torch.inference_mode():
        batch = pipeline.preprocessor(batch_of(arrays, header["task"], policy.config.device))
        actions = [policy.select_action(batch)]
        if header["chunk"] and (queue := action_queue(policy)) is not None:
            actions += queue
            queue.clear()
        actions = [pipeline.postprocessor(action) for action in actions]
    return torch.cat(actions).float().cpu().numpy()


def main(folder: str) -> None:
    """Load the policy in ``folder``, and answer messages until the other end is closed."""
    connection = socket.socket(fileno=os.dup(0))
    try:
        pipeline = load(folder)
    except FolderError as error:
        send_message(connection, {"refusal": str(error)})
        return
    pipeline.policy.eval()
    torch.manual_seed(0)
    send_message(connection, {"type": pipeline.policy.config.type})
    while (message := receive_message(connection)) is not None:
        actions = answer(pipeline, *message)
        send_message(connection, {"shape": list(actions.shape)}, actions.astype("<f4").tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
