"""robo-rl record: demonstrations by a script or by teleoperation, and play."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..app import build_backend, with_source
from ..core import check_seed, typed
from ..recording.episodes import (
    default_path,
    print_summary,
    summary_if_ended,
)
from ..recording.scripts import SCRIPTS
from ..recording.teleoperation import RecordConfig, record_expert, record_human
from ..safety import NoticingBackend
from ..telemetry import Console


def run(config: DictConfig) -> int:
    """Record as configured in configs/record.yaml and print a summary of the data set; return 0."""
    settings = typed(RecordConfig, config, "record")
    check_seed(config)
    console = Console(highlight=False, markup=False)
    only_successful = settings.source != "play" if settings.only_successful is None else settings.only_successful
    if settings.source not in SCRIPTS and "max_episode_steps" in config.task:
        config.task.max_episode_steps = settings.max_episode_steps
    backend = NoticingBackend(with_source(build_backend(config), config, settings.source), print)
    try:
        path = Path(settings.output) if settings.output else default_path(backend.spec, settings.source)
        metadata = {"task": OmegaConf.to_container(config.task, resolve=True)}
        with summary_if_ended(path, console):
            if settings.source in SCRIPTS:
                record_expert(
                    backend,
                    path,
                    settings.episodes,
                    source=settings.source,
                    noise=settings.noise,
                    seed=config.seed,
                    only_successful=only_successful,
                    if_exists=settings.if_exists,
                    metadata=metadata,
                    console=console,
                )
            else:
                record_human(backend, path, settings, only_successful, config, metadata)
        print_summary(path, console)
    finally:
        backend.close()
    return 0
