"""Calibration of cameras by a printed board: intrinsics, and the pose on the robot or beside it."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

from .board import BoardConfig

if TYPE_CHECKING:
    from .board import Board, View
    from .hand_eye import (
        ARRANGEMENTS,
        WRONG_VIEW,
        HandEyeCalibration,
        PosedView,
        ViewResidual,
        calibrate_hand_eye,
    )
    from .intrinsics import IntrinsicCalibration, bare_parts, calibrate_camera, covered_cells
    from .pictures import choose_views, find_views, read_picture, read_pictures
    from .poses import read_poses
    from .sheet import PAPERS, make_sheet
    from .start_view import ViewChange, compare_views, overlay
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "ARRANGEMENTS",
    "PAPERS",
    "WRONG_VIEW",
    "Board",
    "BoardConfig",
    "HandEyeCalibration",
    "IntrinsicCalibration",
    "PosedView",
    "View",
    "ViewChange",
    "ViewResidual",
    "bare_parts",
    "calibrate_camera",
    "calibrate_hand_eye",
    "choose_views",
    "compare_views",
    "covered_cells",
    "find_views",
    "make_sheet",
    "overlay",
    "read_picture",
    "read_pictures",
    "read_poses",
    "register_configs",
]


def register_configs() -> None:
    """Register the section ``board`` of the commands ``robo-rl calibrate``."""
    from hydra.core.config_store import ConfigStore  # slow to import, and not needed for the help of a command
    from omegaconf import OmegaConf

    from robo_rl.core import config_node

    node = OmegaConf.create({"board": config_node(None, BoardConfig)})
    ConfigStore.instance().store(name="board_schema", node=node)
