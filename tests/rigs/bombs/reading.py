"""Reading of each file in a process of its own, with limits on memory and processor time.

``python -m tests.rigs.bombs.reading FOLDER`` makes the files, reads them, and prints the results as JSON.
"""

import json
import os
import resource
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from robo_rl.agents.parts.resnet import load_resnet
from robo_rl.commands.import_ import _reading
from robo_rl.core import ArraySpec, RoboRLError, check_mjcf, decode_image_file, load_config
from robo_rl.deployment.onnx_policy import OnnxPolicy
from robo_rl.learner import load_checkpoint
from robo_rl.replay import EpisodeStore
from robo_rl.replay.interchange import ForeignConfig, LeRobot, Rlds, Robomimic, Rosbag
from robo_rl.replay.interchange.rosbag_topics import TopicConfig
from robo_rl.transport import messages_pb2
from robo_rl.transport.images import decode_image

from .bags import BAGS
from .images import IMAGES
from .lerobot import LEROBOT
from .others import DATA_SETS, MODELS, WEIGHTS
from .records import HDF5, RLDS
from .runs import CHECKPOINTS, CONFIGS, POLICIES, URDFS

MEMORY_BYTES = 2**30
PROCESSOR_SECONDS = 5
TOPICS = {
    "state": TopicConfig(topic="state", gives="state", fields=("data",)),
    "command": TopicConfig(topic="command", gives="action", fields=("data",)),
}
CAMERA = {"front": TopicConfig(topic="front", gives="images/front")}


def write_image(name, path):
    path.write_bytes(IMAGES[name]())
    return path


def load(format_, path):
    """Read a foreign data set whole, as ``robo-rl import`` does."""
    with _reading(path, "this format"):
        data = format_.load(path, ForeignConfig(control_rate=10.0))
        assert sum(episode.record.steps for episode in data.episodes()) >= 0


def load_data_set(path):
    with EpisodeStore.open(path) as store:
        for number in range(len(store)):
            store.arrays(number)


def load_bag(path):
    load(Rosbag(topics=TOPICS | (CAMERA if path.name == "many_headers" else {})), path)


def decode_message(path):
    decode_image(path.read_bytes(), ArraySpec((64, 64, 3), "uint8"), messages_pb2.JPEG)


READERS = {
    "image": (
        {name: partial(write_image, name) for name in IMAGES},
        lambda path: decode_image_file(path.read_bytes(), (64, 64)),
    ),
    "message": ({name: partial(write_image, name) for name in IMAGES if name.startswith("jpeg")}, decode_message),
    "lerobot": (LEROBOT, partial(load, LeRobot())),
    "rlds": (RLDS, partial(load, Rlds())),
    "hdf5": (HDF5, partial(load, Robomimic())),
    "bag": (BAGS, load_bag),
    "data_set": (DATA_SETS, load_data_set),
    "weights": (WEIGHTS, lambda path: load_resnet(path, 1)),
    "model": (MODELS, lambda path: check_mjcf(path, "arm.model")),
    "urdf": (URDFS, lambda path: check_mjcf(path, "arm.model")),
    "config": (CONFIGS, load_config),
    "checkpoint": (CHECKPOINTS, load_checkpoint),
    "policy": (POLICIES, OnnxPolicy.load),
}
"""Makers of files by name, and what reads them."""


def read(reader, path, report):
    """Read ``path`` within the limits, and write what came of it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    begin = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(begin) + 2 * PROCESSOR_SECONDS,) * 2)
    try:
        reader(path)
        outcome = "read"
    except RoboRLError as error:
        outcome = f"refused: {error}"
    except MemoryError:
        outcome = "out of memory"
    except Exception as error:
        outcome = f"raised {type(error).__name__}: {error}"
    os.write(report, json.dumps([outcome, time.process_time() - begin]).encode())


def measure(reader, path):
    """Read ``path`` in a process of its own; return the outcome and the processor time [s]."""
    source, report = os.pipe()
    if (child := os.fork()) == 0:
        try:
            read(reader, path, report)
        finally:
            os._exit(0)
    os.close(report)
    with os.fdopen(source, "rb") as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else [f"ended by signal {os.WTERMSIG(status)}", 0.0]


def main(folder):
    outcomes = {}
    np.zeros(1)
    for kind, (makers, reader) in READERS.items():
        for name, make in makers.items():
            place = folder / kind / (name if kind != "model" else f"{name}/model.xml")
            place.parent.mkdir(parents=True, exist_ok=True)
            begin = time.process_time()
            path = make(place)
            made = time.process_time() - begin
            outcomes[f"{kind}/{name}"] = [*measure(reader, path), made]
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
