"""robo-rl import: conversion of a data set from the format of another project."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from omegaconf import DictConfig

from ..app import build
from ..command_line.destination import new_output
from ..core import DataError, RoboRLError, draft_of, printable, section
from ..recording.episodes import print_summary
from ..replay import EpisodeStore
from ..replay.interchange import DataFormat, ForeignConfig, ImportNotes
from ..replay.interchange.data import check_storable
from ..telemetry import Console, versions


def run(config: DictConfig) -> int:
    """Import as configured in configs/import.yaml and print a summary of the data set; return 0."""
    format_ = cast(DataFormat, build(config.format))
    foreign = cast(ForeignConfig, section(config, "foreign"))
    path, output = Path(str(config.path)), new_output("output", str(config.output), "folder")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with _reading(path, type(format_).__name__):
        lines = import_data_set(format_, path, output, foreign)
    for line in lines:
        console.print(line)
    print_summary(output, console)
    return 0


def import_data_set(format_: DataFormat, path: Path, output: Path, foreign: ForeignConfig) -> list[str]:
    """Import a data set; return lines about data that was left out or changed."""
    data = format_.load(path, foreign)
    check_storable(data, path)
    notes = data.notes or ImportNotes()
    origin = {"path": printable(str(path)), "format": type(format_).__name__, "versions": versions()}
    metadata = {**data.metadata, "imported_from": origin}
    instructions = []
    with draft_of(output) as draft:
        with EpisodeStore.create(draft, data.spec, metadata) as store:
            for index, episode in enumerate(data.episodes()):
                number = index if data.notes is None else episode.record.session
                if episode.record.steps:
                    store.append_episode(episode.transitions())
                    instructions.append(data.instructions[number])
                else:
                    notes.add("Episodes without an action between two observations, left out", str(number))
            lines = notes.lines()
            if not instructions:
                details = f" ({'; '.join(lines)})" if lines else ""
                raise DataError(f"{path}: no episode has an action between two observations{details}")
            store.describe({**metadata, "instructions": instructions, "import_notes": lines})
        draft.replace(output)
    return lines


@contextlib.contextmanager
def _reading(path: Path, name: str) -> Iterator[None]:
    """Turn any error of a reader of a damaged or malicious file into a :class:`DataError`."""
    try:
        yield
    except (RoboRLError, OSError):
        raise
    except Exception as error:
        raise DataError(
            f"{path} cannot be read as {name} ({type(error).__name__}: {error}): it is damaged, or has another format "
            "or layout (--debug shows where)"
        ) from error
