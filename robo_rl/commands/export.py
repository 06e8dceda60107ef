"""robo-rl export: conversion of a data set to the format of another project."""

from pathlib import Path
from typing import cast

from omegaconf import DictConfig

from ..app import build
from ..command_line.destination import new_output
from ..core import DataError, counted, draft_of, printable, sync_folder, sync_tree
from ..replay import EpisodeStore
from ..replay.interchange import DataFormat, DataSet
from ..telemetry import Console, versions


def run(config: DictConfig) -> int:
    """Export as configured in configs/export.yaml; return 0."""
    format_ = cast(DataFormat, build(config.format))
    path, output = Path(str(config.path)), new_output("output", str(config.output), "folder")
    with EpisodeStore.open(path) as store:
        if not len(store):
            raise DataError(f"{path} holds no episode, so there is nothing to export")
        write_export(format_, store, config.instruction, output)
        Console(highlight=False).print(f"{output} holds {counted(len(store), 'episode')}", markup=False, soft_wrap=True)
    return 0


def write_export(format_: DataFormat, store: EpisodeStore, instruction: str | None, output: Path) -> None:
    """Write the contents of ``store`` to ``output``, which exists once all of it is on disk.

    Args:
        format_: format to write.
        store: open data set.
        instruction: see :func:`data_set`.
        output: folder or file to create.

    Raises:
        DataError: if the format cannot hold the data, or ``output`` cannot be written.
    """
    try:
        with draft_of(output) as draft:
            format_.export(data_set(store, instruction), draft)
            sync_tree(draft)
            draft.replace(output)
            sync_folder(output.parent)
    except OSError as error:
        raise DataError(f"{output} cannot be written ({error})") from error


def data_set(store: EpisodeStore, instruction: str | None) -> DataSet:
    """Return the contents of ``store``, each episode with its instruction.

    Args:
        store: open data set.
        instruction: instruction of episodes that were recorded without one; None for the name of the task.
    """
    listed = store.metadata.get("instructions", [])
    recorded = [str(text) for text in (listed if isinstance(listed, list) else [])][: len(store)]
    instructions = recorded + [instruction or store.spec.task] * (len(store) - len(recorded))
    metadata = {**store.metadata, "exported_from": {"path": printable(str(store.path)), "versions": versions()}}
    return DataSet(store.spec, metadata, instructions, lambda: map(store.arrays, range(len(store))))
