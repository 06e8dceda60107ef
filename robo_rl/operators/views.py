"""Comparison of the cameras' pictures with those of an earlier bring-up of the same robot: has a camera been moved?"""

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, DataError, ForeignFolder
from .checks import FAIL, PASS, SKIP, WARN, BringUpConfig, Check

PICTURES = "pictures"
"""Folder of pictures in that of a report."""
CHECKS = "checks.json"
OVERLAY = "_overlay"
"""Suffix that the file name of an overlay adds to that of its picture."""
MOST_FOLDERS = 1000
"""Largest number of folders in which earlier reports are searched."""


def earlier_report(settings: BringUpConfig, robot: str, task: str) -> Path | None:
    """Return the folder of the report to compare with: ``reference``, or the newest one beside ``output``.

    The latter is of the same robot and task, and none of its checks failed: a camera that was found to have moved is
    not the reference of the next bring-up.

    Raises:
        ConfigError: if ``reference`` has no pictures.
    """
    if settings.reference is not None:
        folder = Path(settings.reference)
        if not ForeignFolder(folder).files(PICTURES, ".png", 1):
            raise ConfigError(f"reference: {folder} has no {PICTURES}/*.png; name the output of an earlier bring-up")
        return folder
    reports = []
    output = Path(settings.output)
    for folder in itertools.islice(output.parent.iterdir(), MOST_FOLDERS):
        status = ForeignFolder(folder).files(".", CHECKS, MOST_FOLDERS).get(CHECKS)
        if status is not None and ForeignFolder(folder).files(PICTURES, ".png", 1) and _succeeded(folder, robot, task):
            reports.append((status.st_mtime_ns, folder))
    return max(reports)[1] if reports else None


def _succeeded(folder: Path, robot: str, task: str) -> bool:
    """Return whether a folder is a report of the robot in the task without a failed check."""
    try:
        report = ForeignFolder(folder).read_json(CHECKS)
        if (report["robot"], report["task"]) != (robot, task):
            return False
        return all(check["outcome"] != FAIL for check in report["checks"])
    except (OSError, DataError, LookupError, TypeError):  # not a report
        return False


class Views:
    """Comparison of pictures with those of an earlier report.

    Args:
        folder: folder of that report; None: there is none.
        settings: options.

    Attributes:
        overlays: picture (height, width, 3) of each compared camera, the earlier one in red, the newer one in cyan.
    """

    def __init__(self, folder: Path | None, settings: BringUpConfig) -> None:
        self._folder, self._settings = folder, settings
        self.overlays: dict[str, NDArray[np.uint8]] = {}

    def checks(self, pictures: Mapping[str, NDArray[np.uint8]]) -> list[Check]:
        """Return a check of each camera's picture (height, width, 3); RGB, by the name of the camera."""
        if self._folder is not None:
            return [self._check(name, self._folder, picture) for name, picture in pictures.items()]
        text = "no earlier report of this robot and task, without a failed check, is beside this one (reference)"
        return [Check("views", SKIP, text)] if pictures else []

    def _check(self, name: str, folder: Path, picture: NDArray[np.uint8]) -> Check:
        from ..calibration import compare_views, overlay, read_picture  # only where pictures are compared

        title, file = f"view {name}", folder / PICTURES / f"{name}.png"
        try:
            earlier = read_picture(file.parent, file.name)
            if picture.shape[2] == 1:
                picture = picture.repeat(3, axis=2)
            change = compare_views(earlier, picture)
        except FileNotFoundError:
            return Check(title, WARN, f"{file} does not exist: the camera is new, or has another name")
        except (OSError, DataError) as error:
            return Check(title, WARN, f"not compared: {error}")
        self.overlays[name] = overlay(earlier, picture)
        if change is None:
            return Check(title, FAIL, f"it does not show the scene of {file}, or has too little texture")
        figures = {"farthest": change.farthest, "right": change.shift[0], "down": change.shift[1]}
        figures |= {"brightness": change.brightness}
        moved = change.motion_problem(self._settings.largest_shift)
        brightness = change.brightness_problem(self._settings.largest_brightness_change)
        text = "; ".join(filter(None, [f"compared with {file}: {change.description}", moved, brightness]))
        return Check(title, FAIL if moved else WARN if brightness else PASS, text, figures)
