"""robo-rl export: a data set into the format of another project."""

import os
import shutil
from pathlib import Path
from typing import cast

from omegaconf import DictConfig

from ..app import build
from ..core import DataError
from ..replay import EpisodeStore
from ..replay.interchange import DataFormat, DataSet
from ..telemetry import Console
from .command_words import counted
from .summary import versions


def run(config: DictConfig) -> int:
    """Export as configs/export.yaml says; return 0."""
    format_ = cast(DataFormat, build(config.format))
    path, output = Path(str(config.path)), Path(str(config.output))
    if output.exists():
        raise DataError(f"{output} exists already; choose another output")
    with EpisodeStore.open(path) as store:
        if not len(store):
            raise DataError(f"{path} holds no episode, so there is nothing to export")
        # Made beside its place, under its own name, which some formats use within, and moved there whole.
        folder = output.with_name(f"{output.name}.partial-{os.getpid()}")
        draft = folder / output.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            format_.export(data_set(store, config.instruction), draft)
            draft.replace(output)
        except OSError as error:
            raise DataError(f"{output} cannot be written ({error})") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        Console(highlight=False).print(f"{output} holds {counted(len(store), 'episode')}", markup=False, soft_wrap=True)
    return 0


def data_set(store: EpisodeStore, instruction: str | None) -> DataSet:
    """Return what ``store`` holds, each episode with its instruction.

    Args:
        store: open data set.
        instruction: of episodes that were recorded without; None: the name of the task.
    """
    told = [str(text) for text in store.metadata.get("instructions", [])][: len(store)]
    instructions = told + [instruction or store.spec.task] * (len(store) - len(told))
    metadata = {**store.metadata, "exported_from": {"path": str(store.path), "versions": versions()}}
    return DataSet(store.spec, metadata, instructions, lambda: map(store.arrays, range(len(store))))
