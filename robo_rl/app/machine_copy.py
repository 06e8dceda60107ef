"""The copy of a machine's file in the folder of a run whose task it is."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..core import ConfigError, write_durably

FILE = "machine.yaml"
"""Name of the copy within a run folder."""


def machine_file(config: DictConfig) -> str | None:
    """Return the file of the machine of ``config.task``; None if there is none."""
    file: str | None = OmegaConf.select(config, "task.machine", default=None)
    return file


def keep_machine(config: DictConfig, folder: Path) -> None:
    """Copy the file of the machine, if there is one, into a run folder, and let ``config`` name the copy.

    A run that is resumed uses the copy that it has.

    Raises:
        ConfigError: if the copy cannot be written.
    """
    file, kept = machine_file(config), folder / FILE
    if file is not None and not kept.exists():
        try:
            write_durably(kept, Path(file).read_bytes())
        except OSError as error:
            raise ConfigError(f"{kept} cannot be written: {error.strerror or error}") from error
    use_machine_copy(config, folder)


def use_machine_copy(config: DictConfig, folder: Path) -> None:
    """Let ``config`` name the copy in a run folder, if it has one."""
    if machine_file(config) is not None and (folder / FILE).exists():
        config.task.machine = str((folder / FILE).absolute())
