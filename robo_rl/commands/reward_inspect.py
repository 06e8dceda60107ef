"""robo-rl reward inspect: the output of a run's reward modules along an episode."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig
from rich.table import Table

from ..app import load_reward, run_config
from ..command_line.destination import output_file
from ..core import ConfigError, require, typed
from ..evaluation.viewer import Recording, import_rerun
from ..monitoring.reward_comparison import compare_rewards, print_comparison, true_progress
from ..monitoring.viewer import record_episodes
from ..replay import EpisodeArrays, EpisodeStore
from ..telemetry import Console

FRAMES = 8
SUFFIXES = (".png", ".svg", ".pdf", ".html", ".rrd")
PROGRESS = "true progress"


@dataclass(frozen=True)
class RewardInspectConfig:
    """Options of configs/reward_inspect.yaml, which documents them and holds their defaults."""

    run: str
    checkpoint: str
    path: str
    episode: int
    compare_episodes: int
    discount: float
    output: str | None

    def __post_init__(self) -> None:
        for key in ("episode", "compare_episodes"):
            require(getattr(self, key) >= 0, key, "0 or more", getattr(self, key))
        require(0 <= self.discount < 1, "discount", "in [0, 1)", self.discount)
        require(
            self.output is None or Path(self.output).suffix in SUFFIXES,
            "output",
            f"null or a file name that ends in {', '.join(SUFFIXES)}",
            self.output,
        )


def run(config: DictConfig) -> int:
    """Print a table, and draw a picture or record the episode, as configured in reward_inspect.yaml; return 0."""
    # Imported here, because Matplotlib is only needed to draw a picture.
    from ..evaluation.reward_plot import COLUMNS, plot_rewards, reward_rows, write_reward_page

    settings = typed(RewardInspectConfig, config)
    folder = Path(settings.run)
    run_config(folder)  # raises, before a folder is created for the picture, if this is not a run
    drawn = folder / f"reward_{Path(settings.path).resolve().name}_{settings.episode}.png"
    output = output_file("output", settings.output or drawn)
    if output.suffix == ".rrd":
        import_rerun()  # raises, before the work begins, if Rerun is missing
    # The run may belong to another user, so its simulator is not started and its robot is not accessed.
    trained = load_reward(folder, checkpoint=settings.checkpoint)
    spec = trained.spec
    scorer = trained.reward.scorer
    if scorer is None:
        raise ConfigError(f"{folder} was trained with the task's own terms: it has no reward module to inspect")
    with EpisodeStore.open(Path(settings.path)) as store:
        store.check_against(spec)
        episode = store.arrays(settings.episode)
        compared = [store.arrays(number) for number in range(min(len(store), settings.compare_episodes))]
    rewards = scorer.score(episode.rows(), online=False)
    progress = true_progress(episode)

    console = Console(highlight=False)
    about = f"{settings.path}, episode {settings.episode}, {len(progress)} steps; reward of step {trained.step:,}"
    console.print(about, markup=False, soft_wrap=True)
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for row in reward_rows(rewards, progress):
        table.add_row(*row)
    console.print(table)
    if compared:
        console.print(f"rank correlation with true progress, {len(compared)} episodes of the data set", soft_wrap=True)
        print_comparison(console, compare_rewards(scorer, compared, settings.discount))
    contents = rewards, progress, _frames(episode), spec.control_rate, output
    if output.suffix == ".rrd":
        with Recording(output, about) as recording:
            judged = replace(episode, rewards={**rewards, PROGRESS: progress})
            record_episodes(recording, spec, [(settings.episode, judged)])
    elif output.suffix == ".html":
        write_reward_page(*contents, about)
    else:
        plot_rewards(*contents)
    console.print(f"written: {output}", markup=False, soft_wrap=True)
    return 0


def _frames(episode: EpisodeArrays) -> list[NDArray[np.uint8]]:
    """Return evenly spaced pictures of the first camera, the newest of a stack; none without a camera."""
    cameras = sorted(key for key in episode.observation if key.startswith("images/"))
    if not cameras:
        return []
    pictures = episode.observation[cameras[0]][..., -3:]
    return [pictures[row] for row in np.linspace(0, len(pictures) - 1, FRAMES).round().astype(int)]
