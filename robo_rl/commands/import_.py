"""robo-rl import: a data set out of the format of another project."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from omegaconf import DictConfig

from ..app import build, section
from ..core import DataError, RoboRLError
from ..replay import EpisodeStore
from ..replay.interchange import DataFormat, ForeignConfig
from ..telemetry import Console
from .recording import print_summary
from .summary import versions

SHOWN = 10
"""So many of the episodes that were left out are told by number."""


def run(config: DictConfig) -> int:
    """Import as configs/import.yaml says and print what the data set holds then; return 0."""
    format_ = cast(DataFormat, build(config.format))
    foreign = cast(ForeignConfig, section(config, "foreign"))
    path, output = Path(str(config.path)), Path(str(config.output))
    if output.exists():
        raise DataError(f"{output} exists already; choose another output")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with _reading(path, type(format_).__name__):
        left_out = _import(format_, path, output, foreign)
    if left_out:
        numbers = ", ".join(map(str, left_out[:SHOWN])) + (", ..." if len(left_out) > SHOWN else "")
        console.print(f"Episodes without an action between two observations, left out: {len(left_out)} ({numbers})")
    print_summary(output, console)
    return 0


def _import(format_: DataFormat, path: Path, output: Path, foreign: ForeignConfig) -> list[int]:
    """Import, and return the numbers of the episodes that were left out, as they are too short for a step."""
    data = format_.load(path, foreign)
    origin = {"path": str(path), "format": type(format_).__name__, "versions": versions()}
    metadata = {**data.metadata, "imported_from": origin, "instructions": list(data.instructions)}
    # Made beside its place and moved there whole.
    draft = output.with_name(f"{output.name}.partial-{os.getpid()}")
    left_out = []
    try:
        with EpisodeStore.create(draft, data.spec, metadata) as store:
            for number, episode in enumerate(data.episodes()):
                if episode.record.steps:
                    store.append_episode(episode.transitions())
                else:
                    left_out.append(number)
            if left_out and not len(store):
                raise DataError(f"{path}: no episode has an action between two observations")
            if left_out:
                # Those that stay are told apart by their place alone.
                told = [text for number, text in enumerate(data.instructions) if number not in left_out]
                store.describe({**metadata, "instructions": told})
        draft.replace(output)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return left_out


@contextlib.contextmanager
def _reading(path: Path, name: str) -> Iterator[None]:
    """Turn whatever a reader stumbles over in a file that is damaged, or made to harm, into a :class:`DataError`."""
    try:
        yield
    except (RoboRLError, OSError):
        raise
    except Exception as error:
        raise DataError(
            f"{path} cannot be read as {name} ({type(error).__name__}: {error}): it is damaged, or of another format "
            "or layout (--debug shows where)"
        ) from error
