"""ChArUco boards: their description, their picture, and their corners in the pictures of a camera."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core import Options, option, require

Array = NDArray[np.float64]

DICTIONARIES = {"4x4_50": 50, "4x4_100": 100, "4x4_250": 250, "5x5_100": 100, "5x5_250": 250, "6x6_250": 250}
"""Names of OpenCV's dictionaries of markers, and their numbers of markers."""
LEAST_CORNERS = 8
"""Fewest corners of a view. They determine the pose of the board with some certainty."""


@dataclass(frozen=True)
class BoardConfig(Options, section="board"):
    """Chequerboard with markers in its white squares, as OpenCV draws it since version 4.6. The default fits on A4.

    Attributes:
        columns: number of squares in a row.
        rows: number of rows.
        square: side of a square [m], as measured on the print.
        marker: side of a marker [m].
        dictionary: dictionary of the markers.
    """

    columns: int = option(9, low=4, high=50)
    rows: int = option(7, low=4, high=50)
    square: float = option(0.025, low=0.002, high=1.0)
    marker: float = option(0.019, low=0.001, high=1.0)
    dictionary: str = option("4x4_50", choices=DICTIONARIES)

    def __post_init__(self) -> None:
        super().__post_init__()
        wide = 0.4 * self.square <= self.marker <= 0.9 * self.square
        require(wide, "board.marker", f"0.4 to 0.9 of a square of {self.square:g} m", self.marker)
        markers = self.columns * self.rows // 2
        large = [name for name, count in DICTIONARIES.items() if count >= markers]
        expected = (
            f"a dictionary of {markers} markers or more: {', '.join(large) or 'there is none, so take a smaller board'}"
        )
        require(self.dictionary in large, "board.dictionary", expected, self.dictionary)

    @property
    def width(self) -> float:
        """Width of all squares [m]."""
        return self.columns * self.square

    @property
    def height(self) -> float:
        """Height of all squares [m]."""
        return self.rows * self.square

    @property
    def corner_count(self) -> int:
        """Number of inner corners."""
        return (self.columns - 1) * (self.rows - 1)

    def outline(self) -> Array:
        """Return the outer corners (4, 3) in the board's frame [m]: x along a row, y down, z into the board."""
        return np.array([[x * self.width, y * self.height, 0.0] for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))])

    def describe(self) -> str:
        """Return the sizes in words."""
        return (
            f"{self.columns} x {self.rows} squares of {1000 * self.square:g} mm, markers of {1000 * self.marker:g} mm "
            f"from the dictionary {self.dictionary}"
        )


@dataclass(frozen=True)
class View:
    """Corners of the board in one picture.

    Attributes:
        name: name of the picture.
        size: width and height of the picture [pixels].
        corners: position (k, 2) of each corner [pixels].
        ids: number (k,) of each corner.
        points: position (k, 3) of each corner in the board's frame [m].
    """

    name: str
    size: tuple[int, int]
    corners: Array
    ids: NDArray[np.int64]
    points: Array


class Board:
    """A board, which is drawn and found.

    Args:
        config: its description.
    """

    def __init__(self, config: BoardConfig) -> None:
        import cv2  # slow to import, and not needed for the help of a command

        self.config = config
        name = f"DICT_{config.dictionary.upper()}"
        markers = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, name))
        size = (config.columns, config.rows)
        self._board: Any = cv2.aruco.CharucoBoard(size, config.square, config.marker, markers)
        self._detector: Any = cv2.aruco.CharucoDetector(self._board)

    def draw(self, pixels_per_square: int) -> NDArray[np.uint8]:
        """Return the picture of the board (rows * pixels, columns * pixels), without a margin."""
        config = self.config
        size = (config.columns * pixels_per_square, config.rows * pixels_per_square)
        picture: NDArray[np.uint8] = self._board.generateImage(size, None, 0, 1)
        return picture

    def find(self, name: str, picture: NDArray[np.uint8]) -> View | None:
        """Return the corners in a picture (H, W) or (H, W, 3); None if fewer than :data:`LEAST_CORNERS` were found."""
        import cv2

        grey = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
        corners, ids, _, _ = self._detector.detectBoard(grey)
        if ids is None or len(ids) < LEAST_CORNERS or self._board.checkCharucoCornersCollinear(ids):
            return None
        ids = np.asarray(ids, dtype=np.int64).ravel()
        points = np.asarray(self._board.getChessboardCorners(), dtype=np.float64)[ids]
        size = (picture.shape[1], picture.shape[0])
        return View(name, size, np.asarray(corners, dtype=np.float64).reshape(-1, 2), ids, points)
