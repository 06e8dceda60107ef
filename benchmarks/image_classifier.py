"""Accuracy of success classifiers from one camera's images: by colours, a frozen network and a trained one.

python benchmarks/image_classifier.py [--tasks open_door pick_cube] [--models colours convolutional] [--seed 0]

A classifier is made from 20 demonstrations of the expert (noise of deviation 0.3), and judges 10 further ones and 6
episodes of noise of deviation 1. Last states are successes or failures, as physics says; all others but the one before
a success are failures. Prints a table in Markdown.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from table_runs import make_parser

from robo_rl.core import Batch, EnvSpec, derive_seed
from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import EpisodeStore
from robo_rl.rewards.modules.classifier import ClassifierConfig
from robo_rl.rewards.vision.encoder_config import ImagesConfig
from robo_rl.rewards.vision.images import Floats
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

KEY = "images/front"


def recorded(task: str, episodes: int, noise: float, seed: int) -> tuple[EnvSpec, list[Batch]]:
    """Return the specification, and the rows of episodes of the expert, which all succeed unless ``noise`` is 1."""
    camera = ObservationConfig(cameras=("front",), width=64, height=64)
    backend = make_backend(task, observation=camera, max_episode_steps=60)
    with tempfile.TemporaryDirectory() as folder:
        record_expert(backend, Path(folder, "data"), episodes, noise=noise, seed=seed, only_successful=noise < 1)
        with EpisodeStore.open(Path(folder, "data")) as store:
            rows = [store.arrays(number, [KEY]).rows() for number in range(episodes)]
    backend.close()
    return backend.spec, rows


def measure(spec: EnvSpec, fitted: Sequence[Batch], judged: Sequence[Batch], model: str, seed: int) -> str:
    """Return a row of the table without the task."""
    config = ClassifierConfig(keys=(KEY,), images=ImagesConfig(model=model), fit_steps=300)
    module = config.make("goal", spec, seed)
    module.fit(fitted)
    odds = [module._logits(module._input(each)) for each in judged]
    values = [module(each) for each in judged]
    succeeded = [bool(each["success"][-1] == 1) for each in judged]

    def part(scores: Sequence[Floats], success: bool) -> Floats:
        if success:
            return np.array([each[-1] for each, done in zip(scores, succeeded, strict=True) if done])
        return np.concatenate([each[: -2 if done else None] for each, done in zip(scores, succeeded, strict=True)])

    area = (part(odds, True)[:, None] > part(odds, False)).mean()
    missed, mistaken = 1 - part(values, True).mean(), part(values, False).mean()
    return f"`{model}` | {area:.2f} | {100 * missed:.0f} % of {sum(succeeded)} | {100 * mistaken:.1f} %"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tasks", nargs="+", default=["open_door", "pick_cube"])
    parser.add_argument("--models", nargs="+", default=["colours", "tabletop", "convolutional"])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| task | images | area under the curve | successes missed | failures taken for successes |")
    print("|---|---|---|---|---|")
    for task in given.tasks:
        data = {
            name: recorded(task, episodes, noise, derive_seed(given.seed, task, name))
            for name, episodes, noise in (("fitted", 20, 0.3), ("judged", 10, 0.3), ("noisy", 6, 1.0))
        }
        spec, fitted = data["fitted"]
        for model in given.models:
            row = measure(spec, fitted, [*data["judged"][1], *data["noisy"][1]], model, given.seed)
            print(f"| {task} | {row} |", flush=True)


if __name__ == "__main__":
    main()
