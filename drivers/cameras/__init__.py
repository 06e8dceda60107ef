"""Cameras without ROS: Video4Linux devices, streams and video files through OpenCV, RealSense and OAK."""

from typing import TYPE_CHECKING, Any

from .config import CameraConfig, FinderConfig

if TYPE_CHECKING:
    from .finding import CameraFinder
    from .pictures import CameraPictures

__all__ = ["CameraConfig", "FinderConfig", "make_camera_finder", "make_camera_pictures", "register_configs"]


def make_camera_finder(**fields: Any) -> "CameraFinder":
    """Return a finder of the cameras of this machine; ``fields`` are those of :class:`FinderConfig`."""
    from .finding import CameraFinder  # imports OpenCV, which is slow

    return CameraFinder(FinderConfig(**fields))


def make_camera_pictures(**fields: Any) -> "CameraPictures":
    """Return the pictures of a camera; ``fields`` are those of :class:`CameraConfig`."""
    from .pictures import CameraPictures  # imports OpenCV, which is slow

    return CameraPictures(CameraConfig(**fields))


def register_configs() -> None:
    """Store ``cameras_schema``, the section ``cameras`` of configs/cameras.yaml, and the section ``camera``."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    from robo_rl.core import config_node

    node = OmegaConf.create({"cameras": config_node(make_camera_finder, FinderConfig)})
    ConfigStore.instance().store(name="cameras_schema", node=node)
    node = OmegaConf.create({"camera": config_node(make_camera_pictures, CameraConfig)})
    ConfigStore.instance().store(name="camera_pictures_schema", node=node)
