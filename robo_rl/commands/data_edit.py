"""robo-rl data edit: selected episodes of data sets, written to a new data set."""

from omegaconf import DictConfig

from ..command_line.destination import new_output
from ..core import typed
from ..recording.edits import EditConfig, edit, summary_of
from ..telemetry import Console


def run(config: DictConfig) -> int:
    """Edit as configured in configs/data_edit.yaml; return 0."""
    settings = typed(EditConfig, config)
    new_output("output", settings.output, "folder")
    if settings.rest is not None:
        new_output("rest", settings.rest, "folder")
    console = Console(highlight=False)
    for path in edit(settings):
        console.print(summary_of(path), markup=False, soft_wrap=True)
    return 0
