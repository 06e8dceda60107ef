"""``robo-rl top``: a table of active runs in the terminal."""

import time

from omegaconf import DictConfig
from rich.live import Live

from ..core import typed
from ..monitoring.run_table import TopConfig, look
from ..telemetry import Console


def run(config: DictConfig) -> int:
    """Display the newest runs until Ctrl-C, or once; return 0."""
    if isinstance(config.runs, str):  # a single folder needs no brackets
        config.runs = [config.runs]
    settings = typed(TopConfig, config)
    console = Console()
    page = look(settings)
    if settings.once:
        console.print(page)
        return 0
    with Live(page, console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            time.sleep(settings.interval)
            live.update(look(settings), refresh=True)
