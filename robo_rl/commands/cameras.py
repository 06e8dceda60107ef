"""robo-rl cameras: the cameras of this machine, their modes, and pictures of what they see."""

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape

from ..app import build

NONE = "No cameras found: connect one; in a container pass --device /dev/video0"
EXIT_FAILED = 1


def run(config: DictConfig) -> int:
    """Print the cameras and save pictures as configured in configs/cameras.yaml; return 1 if one fails."""
    console = Console(highlight=False, soft_wrap=True)
    count = failed = 0
    for camera in build(config.cameras).find():
        count += 1
        console.print(f"[bold]{escape(camera.device)}[/bold] {escape(camera.name)}".rstrip())
        for mode in camera.modes:
            rates = ", ".join(f"{rate:g}" for rate in mode.rates)
            console.print(f"  {escape(mode.format)} {mode.size}{f' at {rates} fps' if rates else ''}")
        if camera.problem:
            failed += 1
            console.print(f"  [red]{escape(camera.problem)}[/red]")
        elif camera.picture is not None:
            console.print(f"  picture of {camera.size[0]}x{camera.size[1]}: {escape(str(camera.picture))}")
    if not count:
        console.print(NONE)
    return EXIT_FAILED if failed else 0
