"""``robo-rl report runs=[FOLDER, ...]``: an HTML page about one or more runs, or about a comparison of policies."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, ListConfig
from rich.table import Table
from rich.text import Text

from ..command_line.destination import output_file
from ..core import require, typed, write_durably
from ..evaluation.aggregate import group_runs
from ..evaluation.comparison import Comparison
from ..evaluation.comparison_page import write_comparison
from ..evaluation.report import RESULTS, markdown_table, repeated_seeds, results, write_report
from ..evaluation.runs import find_runs, load_run
from ..monitoring.demonstration_thumbnails import demonstration_thumbnails
from ..telemetry import Console


@dataclass(frozen=True)
class ReportConfig:
    """Options of configs/report.yaml, which documents them and holds their defaults."""

    runs: list[str]
    comparison: str | None
    output: str | None
    embed: bool
    table: str | None

    def __post_init__(self) -> None:
        allowed = "one or more run folders, for example runs=[runs/a,runs/b]"
        if self.comparison is None:
            require(bool(self.runs) and all(self.runs), "runs", allowed, self.runs)
        else:
            require(not self.runs, "runs", "left out where comparison names a file", self.runs)
            require(self.table is None, "table", "left out where comparison names a file", self.table)


def run(config: DictConfig) -> int:
    """Write the page and, if requested, the table of results; print the table and the path of the page."""
    if not isinstance(config.runs, ListConfig):  # a single run needs no brackets
        config.runs = [config.runs]
    settings = typed(ReportConfig, config)
    if settings.comparison is not None:
        return _show_comparison(Path(settings.comparison), settings.output)
    paths = find_runs(settings.runs)
    folder = paths[0] if len(paths) == 1 else paths[0].parent
    output = Path(settings.output) if settings.output is not None else folder / "report.html"
    _check_output(output)
    if settings.table is not None:
        output_file("table", settings.table)

    runs = [load_run(path) for path in paths]
    groups = group_runs(runs)
    console = Console()
    columns = RESULTS[:5]  # as many as a terminal has room for; the page also contains the times
    table = Table(*columns, box=None, pad_edge=False)
    for row in results(groups):
        table.add_row(*map(Text, row[: len(columns)]))
    console.print(table)
    for each in runs:
        for problem in each.problems:
            console.print(f"{each.name}: {problem}", style="yellow", markup=False)
    for text in repeated_seeds(groups):
        console.print(text, style="yellow", markup=False, soft_wrap=True)
    if settings.table is not None:
        write_durably(Path(settings.table), markdown_table(groups).encode())
        console.print(f"table:  {settings.table}", markup=False, soft_wrap=True)
    page = write_report(runs, output, settings.embed, thumbnails=demonstration_thumbnails)
    console.print(f"report: {page}", markup=False, soft_wrap=True)
    return 0


def _show_comparison(file: Path, output: str | None) -> int:
    """Write the page of a comparison, and print its conclusions and the path of the page; return 0."""
    comparison = Comparison.read(file)
    page = file.with_suffix(".html") if output is None else Path(output)
    _check_output(page)
    console = Console()
    for line in comparison.describe():
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"report: {write_comparison(comparison, file, page)}", markup=False, soft_wrap=True)
    return 0


def _check_output(output: Path) -> None:
    require(output.suffix in (".html", ".htm"), "output", "a file name that ends in .html", str(output))
    output_file("output", output)
