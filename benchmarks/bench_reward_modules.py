"""Cost of reward modules, in processor time of one core: python benchmarks/bench_reward_modules.py [NAME ...].

Of `open_door` (42 elements of state, a camera of 64x64 pixels): made from 20 demonstrations, scoring 50 episodes, and
what a learned module does after each step of a training, over 200 steps.
"""

import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from table_runs import make_parser

from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import EpisodeStore, ReplayRing
from robo_rl.rewards import MODULES, ComposedRewardConfig
from robo_rl.rewards.vision.encoder_config import ImagesConfig
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

STEPS = 200
FIXED = ("classifier", "stages", "perceptual", "optimal_transport", "successes")
LEARNED = ("vice", "gail", "preferences", "novelty")
PIXELS = {"keys": ("images/front",)}


def configs() -> dict[str, Any]:
    """Return configurations of modules by what they are called in the table."""
    found = {kind: MODULES[kind]() for kind in (*FIXED, *LEARNED)}
    for kind in ("classifier", "vice"):
        for model in ("tabletop", "convolutional"):
            found[f"{kind}, images: {model}"] = replace(found[kind], **PIXELS, images=ImagesConfig(model=model))
    found["clip"] = MODULES["clip"](goals=("the door is open",), alpha=0.0)
    return found


def milliseconds(work: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    work(*arguments, **options)
    return 1e3 * (time.process_time() - began)


def main() -> None:
    """Print the table in Markdown."""
    parser = make_parser(__doc__)
    parser.add_argument("modules", nargs="*", help="names of modules; all without any")
    chosen = parser.parse_args().modules
    torch.set_num_threads(1)
    camera = ObservationConfig(cameras=("front",), width=64, height=64)
    backend = make_backend("open_door", observation=camera)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data")
        record_expert(backend, path, 20, noise=0.3, seed=0)
        record_expert(backend, path, 30, noise=1.0, seed=1, only_successful=False, if_exists="append")
        store = EpisodeStore.open(path)
        episodes = [store.arrays(number).rows() for number in range(len(store))]
        print("| module | made from demonstrations [s] | a step scored [ms] | a step of training [ms] |")
        print("|---|---|---|---|")
        for name, config in configs().items():
            if chosen and name not in chosen:
                continue
            scorer = ComposedRewardConfig(modules={"mine": config}).make(backend.spec, 0).scorer
            assert scorer is not None
            ring = ReplayRing(store.ring_slots(), backend.spec, scorer.terms)
            store.load_into(ring)
            fit = milliseconds(scorer.fit, episodes[:20])
            scoring = milliseconds(ring.score_held, scorer, online=True) / len(ring)
            learning = sum(milliseconds(scorer.update, ring) for _ in range(STEPS)) / STEPS
            learned = f"{learning:.1f}" if scorer.learns else "-"
            print(f"| {name} | {fit / 1e3:.1f} | {scoring:.2f} | {learned} |", flush=True)
            del scorer, ring
            gc.collect()  # and frames that its encoder remembers
    backend.close()


if __name__ == "__main__":
    main()
