"""The printable sheet with a board, in its true size."""

import io
from typing import Any

from robo_rl.core import ConfigError

from .board import Board

MILLIMETRES_PER_INCH = 25.4
PAPERS = {"a4": (297.0, 210.0), "a3": (420.0, 297.0), "letter": (279.4, 215.9), "a2": (594.0, 420.0)}
"""Width and height of papers in landscape format [mm]."""
MARGIN = 8.0
"""Margin that printers leave white [mm]."""
FOOT = 14.0
"""Height of the text and the ruler below the board [mm]."""
RULER = 100
"""Length of the ruler [mm]."""
PIXELS_PER_MILLIMETRE = 10
_GREY = "0.35"


def make_sheet(board: Board, paper: str) -> bytes:
    """Return a PDF file of one page with the board, its sizes, and a ruler to check the print.

    Args:
        board: the board.
        paper: one of :data:`PAPERS`.

    Raises:
        ConfigError: if the board is larger than the paper.
    """
    from matplotlib.backends.backend_pdf import FigureCanvasPdf  # slow to import
    from matplotlib.figure import Figure

    width, height = PAPERS[paper]
    config = board.config
    board_width, board_height = 1000 * config.width, 1000 * config.height
    free_width, free_height = width - 2 * MARGIN, height - 2 * MARGIN - FOOT
    if board_width > free_width or board_height > free_height:
        fitting = [name for name, (w, h) in PAPERS.items() if w >= width and h >= height and name != paper]
        raise ConfigError(
            f"paper: the board of {board_width:g} x {board_height:g} mm is larger than the {free_width:g} x "
            f"{free_height:g} mm that can be printed on {paper}; give smaller squares (board.square) or larger paper"
            + (f" (paper={fitting[0]})" if fitting else "")
        )
    figure = Figure(figsize=(width / MILLIMETRES_PER_INCH, height / MILLIMETRES_PER_INCH))
    page: Any = figure.add_axes((0, 0, 1, 1))
    page.set_axis_off()
    page.set_xlim(0, width)
    page.set_ylim(0, height)
    left, bottom = (width - board_width) / 2, MARGIN + FOOT + (free_height - board_height) / 2
    pixels = round(PIXELS_PER_MILLIMETRE * 1000 * config.square)
    extent = (left, left + board_width, bottom, bottom + board_height)
    page.imshow(board.draw(pixels), cmap="gray", extent=extent, interpolation="none", aspect="auto")
    _add_foot(page, board, width)
    file = io.BytesIO()
    title = f"Calibration board, {config.describe()}"
    canvas: Any = FigureCanvasPdf(figure)
    canvas.print_pdf(file, metadata={"Title": title, "CreationDate": None})
    return file.getvalue()


def _add_foot(page: Any, board: Board, width: float) -> None:
    """Add the sizes on the left and a ruler on the right."""
    config = board.config
    options = f"board.columns={config.columns} board.rows={config.rows} board.dictionary={config.dictionary}"
    lines = (
        f"ChArUco board, {config.describe()}",
        f"robo-rl calibrate: {options} board.square={config.square:g} board.marker={config.marker:g}",
        "Print at 100 %, without fitting to the page, and glue it to a flat plate. Then measure a square.",
    )
    for number, line in enumerate(lines):
        page.text(MARGIN, MARGIN + 8.5 - 4.0 * number, line, fontsize=7, color=_GREY)
    right = width - MARGIN
    page.plot([right - RULER, right], [MARGIN + 1.5] * 2, color=_GREY, linewidth=0.5, solid_capstyle="butt")
    for millimetre in range(0, RULER + 1, 5):
        x, length = right - RULER + millimetre, 3.0 if millimetre % 10 == 0 else 1.5
        page.plot([x, x], [MARGIN + 1.5, MARGIN + 1.5 + length], color=_GREY, linewidth=0.5, solid_capstyle="butt")
    page.text(right, MARGIN + 6, f"{RULER} mm", fontsize=7, color=_GREY, ha="right")
