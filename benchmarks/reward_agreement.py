"""How well each kind of reward module agrees with the true progress of open_door: robo-rl reward benchmark, 3 seeds.

    python benchmarks/reward_agreement.py
    python benchmarks/reward_agreement.py --seeds 12 --results /tmp

Modules have their defaults but for what is said below; annotations are those of a small model (clip_annotator.py).
Takes about ten minutes of one core a seed. Writes docs/measured/results/reward_agreement.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from clip_annotator import annotator

ROOT = Path(__file__).resolve().parents[1]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[12, 13, 14])
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "measured" / "results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(seed, Path(folder) / "result.json") for seed in options.seeds]
    (options.results / f"{NAME}.json").write_text(json.dumps(results, indent=1) + "\n")


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
        subprocess.run([sys.executable, "-m", "robo_rl.cli", "reward", "benchmark", *words], check=True)
    return json.loads(output.read_text())


if __name__ == "__main__":
    main()
