"""robo-rl calibrate board: a board to print in its true size."""

from dataclasses import dataclass, fields

from omegaconf import DictConfig

from ..calibration import PAPERS, Board, BoardConfig, make_sheet
from ..command_line.destination import output_file
from ..core import require, section, typed, write_durably
from ..telemetry import Console


@dataclass(frozen=True)
class SheetConfig:
    """Options of configs/calibrate_board.yaml, which documents them and holds their defaults."""

    output: str
    paper: str

    def __post_init__(self) -> None:
        require(self.paper in PAPERS, "paper", ", ".join(PAPERS), self.paper)
        require(self.output.lower().endswith(".pdf"), "output", "a name that ends in .pdf", self.output)


def run(config: DictConfig) -> int:
    """Write the board as configured in configs/calibrate_board.yaml; return 0."""
    options = {field.name: config[field.name] for field in fields(SheetConfig)}
    settings = typed(SheetConfig, DictConfig(options))
    board: BoardConfig = section(config, "board")
    path = output_file("output", settings.output)
    write_durably(path, make_sheet(Board(board), settings.paper))
    console = Console(highlight=False, markup=False)
    console.print(f"{path}: {board.describe()}, on {settings.paper.upper()}", soft_wrap=True)
    console.print(
        "Print it at 100 % and glue it to a flat plate. Measure a row of squares: if they are larger or smaller, give "
        "the measured size to the other commands, such as board.square=0.0249",
        soft_wrap=True,
    )
    return 0
