"""Format LeRobotDataset (Hugging Face), v2.1 and v3.0."""

from dataclasses import dataclass
from pathlib import Path

from robo_rl.core import Options, option

from .data import DataSet
from .foreign import ForeignConfig
from .lerobot_layout import V3, V21

ACTIONS = ("proposed", "executed")


@dataclass(frozen=True)
class LeRobot(Options, section="format"):
    """LeRobotDataset. The options are only for export; import detects the properties of the data.

    Attributes:
        version: ``v3.0``, or ``v2.1`` for LeRobot before 0.4 and software made for it.
        images: ``png`` (lossless) or ``video`` (much smaller).
        quality: quality of videos: 0 is best, 18 hardly differs from the original, 51 is worst.
        action: action that becomes ``action``: the ``proposed`` one, to be imitated, or the ``executed`` one.
        robot_type: name of the robot.
    """

    version: str = option(V3, choices=(V21, V3))
    images: str = option("png", choices=("png", "video"))
    quality: int = option(18, low=0, high=51)
    action: str = option("proposed", choices=ACTIONS)
    robot_type: str | None = None

    def export(self, data: DataSet, path: Path) -> None:
        """Write ``data`` to the folder ``path``; see :class:`DataFormat`."""
        from .lerobot_export import LeRobotWriter  # slow to import, and not needed for the help of a command

        LeRobotWriter(
            path,
            data,
            version=self.version,
            images=self.images,
            action=self.action,
            quality=self.quality,
            robot_type=self.robot_type,
        ).write()

    def load(self, path: Path, foreign: ForeignConfig) -> DataSet:
        """Read the folder ``path``; see :class:`DataFormat`."""
        from .lerobot_import import read_lerobot

        return read_lerobot(path, foreign)
