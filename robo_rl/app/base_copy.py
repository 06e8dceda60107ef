"""The copy of a base policy in the folder of a run that corrects it."""

from pathlib import Path

from omegaconf import DictConfig

FOLDER = "base"
"""Folder of the copy within a run folder: that of a run, the ONNX file ``FILE``, or a folder of LeRobot."""
FILE = "policy.onnx"


def use_copy(config: DictConfig, folder: Path) -> None:
    """Let ``config`` name the copy of the base policy in a run folder, if it has one."""
    copy = folder / FOLDER
    if "base" not in config or not copy.exists():
        return
    if config.base.run is not None:
        config.base.run, config.base.checkpoint = str(copy.absolute()), "newest"
    elif config.base.policy is not None:
        config.base.policy = str(copy.absolute() / FILE)
    elif config.base.lerobot is not None:
        config.base.lerobot = str(copy.absolute())
