"""Files that a foreign configuration names: no reader waits for a pipe, reads a device or fills the memory."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robo_rl.app.lerobot_base import open_lerobot
from robo_rl.calibration import read_poses
from robo_rl.core import CameraModel, RoboRLError
from robo_rl.drivers.servos.calibration import load_calibration
from robo_rl.rewards.modules.code import CodeConfig
from robo_rl.rewards.modules.stages import StagesConfig
from robo_rl.sim.arm import read_arm_file
from robo_rl.sim.gymnasium_making import make_environment
from robo_rl.sim.gymnasium_options import GymnasiumConfig
from robo_rl.transport.service import read_key

from ..rigs.lerobot_folder import write_lerobot
from ..rigs.replay_episodes import SPEC

LARGE_BYTES = 200 << 30


def lerobot(name: str) -> Callable[[Path], Any]:
    """Return a reader of a folder of LeRobot in which a file has been replaced by a link to the named one."""

    def read(path: Path) -> Any:
        folder = write_lerobot(path.parent / "policy")
        (folder / name).unlink()
        (folder / name).symlink_to(path)
        return open_lerobot(folder)

    return read


def gymnasium(argument: str) -> Callable[[Path], Any]:
    pytest.importorskip("gymnasium")
    return lambda path: make_environment(GymnasiumConfig("Ant-v5", {argument: str(path)}))


READERS: dict[str, Callable[[Path], Any]] = {
    "code": lambda path: CodeConfig(file=str(path)).make("mine", SPEC, 0),
    "stages": lambda path: StagesConfig(file=str(path)).make("mine", SPEC, 0),
    "key": read_key,
    "calibration": lambda path: load_calibration(str(path)),
    "camera": CameraModel.read,
    "poses": read_poses,
    "arm": lambda path: read_arm_file(str(path)),
    "environment": gymnasium("xml_file"),
    "lerobot_config": lerobot("config.json"),
    "lerobot_weights": lerobot("model.safetensors"),
}


def make(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "terminal":
        path.symlink_to("/dev/ptmx")
    else:
        with path.open("wb") as stream:
            stream.truncate(LARGE_BYTES)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "terminal", "large"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_small_regular_file_is_refused(reader: str, kind: str, tmp_path: Path) -> None:
    if (reader, kind) == ("lerobot_weights", "large"):
        pytest.skip("weights have no limit; they are read in parts")
    path = tmp_path / "file.xml"
    make(path, kind)
    with pytest.raises(RoboRLError, match=r"file\.xml|config\.json|model\.safetensors"):
        READERS[reader](path)
