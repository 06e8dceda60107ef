"""robo-rl collect: episodes of a trained policy, recorded into a data set."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from ..app import acting_config, build_backend, load_policy, robot_note
from ..core import require, typed
from ..evaluation.provenance import provenance
from ..recording.disk_space import DiskSpace
from ..recording.episodes import (
    IF_EXISTS,
    EpisodePrinter,
    PolicyChooser,
    default_path,
    open_data_set,
    print_summary,
    record_episodes,
    summary_if_ended,
)
from ..residual import without_base_actions
from ..safety import NoticingBackend
from ..telemetry import Console


@dataclass(frozen=True)
class CollectConfig:
    """Options of configs/collect.yaml, which documents them and holds their defaults."""

    policy: str
    checkpoint: str
    output: str | None
    episodes: int
    explore: bool
    noise: float
    only_successful: bool
    if_exists: str
    seed: int
    on_robot: bool

    def __post_init__(self) -> None:
        require(self.episodes >= 1, "episodes", "1 or more", self.episodes)
        require(0 <= self.noise <= 1, "noise", "in [0, 1]", self.noise)
        require(self.seed >= 0, "seed", "0 or more", self.seed)
        require(self.if_exists in IF_EXISTS, "if_exists", f"one of {', '.join(IF_EXISTS)}", self.if_exists)


def run(config: DictConfig) -> int:
    """Collect episodes as configured in configs/collect.yaml and print a summary of the data set; return 0."""
    settings = typed(CollectConfig, config)
    folder = Path(settings.policy)
    trained_as = acting_config(folder, settings.on_robot)
    console = Console(highlight=False, markup=False)
    if (note := robot_note(trained_as)) is not None:
        console.print(note, soft_wrap=True)
    backend = NoticingBackend(build_backend(trained_as), print)
    try:
        trained = load_policy(folder, backend.spec, settings.checkpoint, trained_as)
        spec = without_base_actions(backend.spec)
        path = Path(settings.output) if settings.output else default_path(spec, "policy")
        metadata = {
            "source": "policy",
            "policy": str(folder),
            "step": trained.step,
            "collected_from": provenance(folder, spec.task, trained_as.choices.get("agent"), trained.step),
            "seed": settings.seed,
            "noise": settings.noise,
            "explore": settings.explore,
            "task": OmegaConf.to_container(trained_as.task, resolve=True),
        }
        with (
            summary_if_ended(path, console),
            open_data_set(path, spec, settings.if_exists, metadata) as store,
        ):
            record_episodes(
                backend,
                store,
                settings.episodes,
                lambda rng: PolicyChooser(trained.policy, trained.step, settings.explore, settings.noise, rng),
                actor="policy",
                seed=settings.seed,
                only_successful=settings.only_successful,
                report=EpisodePrinter(console, settings.episodes, DiskSpace(store).describe),
            )
        print_summary(path, console)
    finally:
        backend.close()
    return 0
