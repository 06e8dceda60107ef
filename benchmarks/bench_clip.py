"""Speed at which the CLIP reward scores episodes, beside the bare encoder, and a second time from the cache.

python benchmarks/bench_clip.py [--model tabletop] [--rounds 9] [--threads 1] [--json FILE]

An episode is 200 frames of 64x64 from one camera. The bare encoder is the model's image tower alone, on batches of the
same size that are preprocessed already. Both take turns within one run, so that their ratio does not depend on what
else the machine does; times are of the processor (of all threads). The model may be any that
`reward.modules.clip.model` takes; what it has learned does not matter here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from made_up import spec_of
from table_runs import make_parser, processor_seconds, write_json
from torch import Tensor

from robo_rl.core import ArraySpec
from robo_rl.rewards.modules.clip import ClipConfig
from robo_rl.rewards.vision.encoder import Preprocessing, load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig

FRAMES = 200
REPETITIONS = 100
"""Of the second pass, which is too short to be measured once."""
SPEC = spec_of({"images/front": ArraySpec((64, 64, 3), "uint8")}, action=1, episode_steps=FRAMES)


@torch.inference_mode()
def encode(model: Any, batches: Sequence[Tensor]) -> None:
    for batch in batches:
        model.encode_image(batch, normalize=True)


def repeated(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()


def measure(model: str, rounds: int, batch_size: int) -> dict[str, float]:
    """Return frames a second of each way, the median of all rounds."""
    config = ClipConfig(model=model, goals=("a robot",), baselines=("a table",), batch_size=batch_size)
    module = config.make("clip", SPEC, 0)
    encoder = load_encoder(EncoderConfig(model=model, batch_size=batch_size))
    rng = np.random.default_rng(0)
    preprocess = Preprocessing(encoder._model.visual.preprocess_cfg)
    times: dict[str, list[float]] = {"bare encoder": [], "first pass": [], "second pass": []}
    for number in range(rounds + 1):
        frames = rng.integers(0, 256, (FRAMES, 64, 64, 3), dtype=np.uint8)
        batches = preprocess(torch.from_numpy(frames)).split(batch_size)
        score = partial(module, {"next_observation/images/front": frames})
        found = {
            "bare encoder": processor_seconds(partial(encode, encoder._model, batches)),
            "first pass": processor_seconds(score),
            "second pass": processor_seconds(partial(repeated, score, REPETITIONS)) / REPETITIONS,
        }
        if number > 0:  # the first warms up
            for name, value in found.items():
                times[name].append(value)
    return {name: FRAMES / float(np.median(values)) for name, values in times.items()}


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, "--json")
    parser.add_argument("--model", default="tabletop")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=EncoderConfig().batch_size)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rates = measure(options.model, options.rounds, options.batch_size)
    bare, first, second = rates.values()
    print(f"{options.model}, {FRAMES} frames of 64x64, batches of {options.batch_size}, {options.threads} threads")
    for name, rate in rates.items():
        print(f"{name:<14} {rate:12,.0f} frames/s")
    print(f"scoring costs {100 * (bare / first - 1):.1f} % more than the bare encoder")
    print(f"a second pass is {second / first:.0f} times as fast as the first")
    facts = {"model": options.model, "frames": FRAMES, "batch_size": options.batch_size, "threads": options.threads}
    write_json(options.json, facts | {"frames_per_second": rates})


if __name__ == "__main__":
    main()
