"""robo-rl export: conversion of a data set to the format of another project."""

from pathlib import Path
from typing import cast

from omegaconf import DictConfig

from ..app import build
from ..core import DataError, counted, draft_of, printable
from ..replay import EpisodeStore
from ..replay.interchange import DataFormat, DataSet
from ..telemetry import Console, versions


def run(config: DictConfig) -> int:
    """Export as configured in configs/export.yaml; return 0."""
    format_ = cast(DataFormat, build(config.format))
    path, output = Path(str(config.path)), Path(str(config.output))
    if output.exists():
        raise DataError(f"{output} already exists; choose another output")
    with EpisodeStore.open(path) as store:
        if not len(store):
            raise DataError(f"{path} holds no episode, so there is nothing to export")
        try:
            with draft_of(output) as draft:
                format_.export(data_set(store, config.instruction), draft)
                draft.replace(output)
        except OSError as error:
            raise DataError(f"{output} cannot be written ({error})") from error
        Console(highlight=False).print(f"{output} holds {counted(len(store), 'episode')}", markup=False, soft_wrap=True)
    return 0


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
