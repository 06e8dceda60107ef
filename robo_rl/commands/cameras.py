"""robo-rl cameras: the cameras of this machine, their modes and pictures, and changes of their views."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape

from ..app import build
from ..core import ConfigError, DataError, ForeignFolder, require, typed, write_durably

NONE = "No cameras found: connect one; in a container pass --device /dev/video0"
EXIT_FAILED = 1
OVERLAY = "_overlay"
"""Suffix that the file name of an overlay adds to that of its picture."""


@dataclass(frozen=True)
class CamerasConfig:
    """Options of configs/cameras.yaml, which documents them and holds their defaults."""

    reference: str | None
    largest_shift: float
    largest_brightness_change: float

    def __post_init__(self) -> None:
        require(self.largest_shift > 0, "largest_shift", "above 0", self.largest_shift)
        change = self.largest_brightness_change
        require(change > 0, "largest_brightness_change", "above 0", change)


def run(config: DictConfig) -> int:
    """Print the cameras and save pictures as configured in configs/cameras.yaml; return 1 if one fails or has moved."""
    settings = typed(CamerasConfig, DictConfig({key: config[key] for key in CamerasConfig.__dataclass_fields__}))
    absent = _references(settings, config.cameras.output)
    console = Console(highlight=False, soft_wrap=True)
    count = failed = 0
    for camera in build(config.cameras).find():
        count += 1
        console.print(f"[bold]{escape(camera.device)}[/bold] {escape(camera.name)}".rstrip())
        for mode in camera.modes:
            rates = ", ".join(f"{rate:g}" for rate in mode.rates)
            console.print(f"  {escape(mode.format)} {mode.size}{f' at {rates} fps' if rates else ''}")
        problem = camera.problem
        if camera.picture is not None:
            console.print(f"  picture of {camera.size[0]}x{camera.size[1]}: {escape(str(camera.picture))}")
            if settings.reference is not None:
                absent.discard(camera.picture.name)
                problem = _compare(console, settings, Path(settings.reference), camera.picture)
        if problem:
            failed += 1
            console.print(f"  [red]{escape(problem)}[/red]")
    for name in sorted(absent):
        failed += 1
        console.print(f"[red]{escape(f'{settings.reference}/{name}: no camera gives this picture now')}[/red]")
    if not count:
        console.print(NONE)
    return EXIT_FAILED if failed else 0


def _references(settings: CamerasConfig, output: str | None) -> set[str]:
    """Return the names of the reference pictures; none without ``reference``.

    Raises:
        ConfigError: if there are none, or new pictures would replace them or are not taken.
    """
    if settings.reference is None:
        return set()
    folder = Path(settings.reference)
    if output is None or Path(output).resolve() == folder.resolve():
        raise ConfigError(f"cameras.output: expected another folder than reference={folder}, got {output}")
    names = ForeignFolder(folder).files(".", ".png", 1000) if folder.is_dir() else []
    pictures = {name for name in names if not Path(name).stem.endswith(OVERLAY)}
    if not pictures:
        raise ConfigError(
            f"reference: {folder} has no pictures of cameras; save them with robo-rl cameras cameras.output={folder}"
        )
    return pictures


def _compare(console: Console, settings: CamerasConfig, folder: Path, file: Path) -> str:
    """Compare a picture with that of the same name in ``folder``; return a problem, or an empty string."""
    from ..calibration import compare_views, overlay, read_picture  # imports OpenCV

    try:
        reference, picture = read_picture(folder, file.name), read_picture(file.parent, file.name)
        change = compare_views(reference, picture)
    except FileNotFoundError:
        return f"no reference {folder / file.name}: save it with robo-rl cameras cameras.output={folder}"
    except DataError as error:
        return str(error)
    written = file.with_name(f"{file.stem}{OVERLAY}.png")
    _write(written, overlay(reference, picture))
    console.print(f"  reference in red, now in cyan: {escape(str(written))}")
    if change is None:
        return f"no match: it does not show the scene of {folder / file.name}, or has too little texture"
    console.print(f"  {change.description}")
    problems = (
        change.motion_problem(settings.largest_shift),
        change.brightness_problem(settings.largest_brightness_change),
    )
    return "; ".join(filter(None, problems))


def _write(file: Path, picture: NDArray[Any]) -> None:
    import cv2  # slow to import

    write_durably(file, bytes(cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]))
