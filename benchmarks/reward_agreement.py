"""Agreement of each kind of reward module with the true progress of open_door, for three seeds.

    python benchmarks/reward_agreement.py
    python benchmarks/reward_agreement.py --seeds 12 --results /tmp

Modules have their defaults but for what is said below; annotations are those of a small model (clip_annotator.py).
Takes about ten minutes of one core a seed. Writes docs/measured/results/reward_agreement.json.
"""

import json
import tempfile
from pathlib import Path

from clip_annotator import annotator
from table_runs import RESULTS, make_parser, robo_rl, write_json

NAME = "reward_agreement"

KINDS = (
    "annotations",
    "classifier",
    "clip",
    "code",
    "ensemble",
    "gail",
    "interventions",
    "keypoints",
    "novelty",
    "occupancy",
    "preferences",
    "specification",
    "stages",
    "successes",
    "vice",
)
"""Besides perceptual and optimal transport, which the command makes by itself."""

OPTIONS = (
    "preferences.noise=0.2",
    "preferences.mistakes=0.2",
    "preferences.hidden=[32]",
    "preferences.length=4",
    "preferences.queries=1000",
    "annotations.goal=the door is open",
    "annotations.endpoint.model=tabletop",
    "vice.soft=true",
    "ensemble.combination=uncertainty",
    "ensemble.members.one.soft=true",
    "keypoints.waypoints=[[0.52,0.46],[0.53,0.52],[0.64,0.44]]",
    'specification.formula="eventually (hinge_angle > 0.35)"',
    f"code.file={Path(__file__).with_name('open_door_reward.py')}",
)

COMMON = (
    "task=open_door",
    "task.observation.cameras=[front]",
    "task.observation.width=64",
    "task.observation.height=64",
    "benchmark.practice_episodes=100",
    "benchmark.practice_steps=6000",
)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=[12, 13, 14])
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(seed, Path(folder) / "result.json") for seed in options.seeds]
    write_json(options.results / f"{NAME}.json", results)


def measure(seed: int, output: Path) -> dict:
    """Return what the command writes."""
    modules = [f"+reward/module@reward.modules.{kind}={kind}" for kind in KINDS]
    modules.append("+reward/module@reward.modules.ensemble.members.one=vice")
    chosen = [f"reward.modules.{option}" for option in OPTIONS]
    with annotator() as url:
        annotation_options = [
            f"reward.modules.annotations.endpoint.url={url}",
            f"benchmark.output={output}",
            f"seed={seed}",
        ]
        words = [*COMMON, *modules, *chosen, *annotation_options]
        robo_rl("reward", "benchmark", *words)
    return json.loads(output.read_text())


if __name__ == "__main__":
    main()
