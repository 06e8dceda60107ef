"""Speed of agents that learn from images: updates per second, and the time of their parts.

python benchmarks/bench_pixels.py [--batch-size 256]

One update is: draw a minibatch (half demonstrations), one step of critics and encoder, one of the actor. The agents
take turns within one run, so that their ratios do not depend on what else the machine does; times are of the processor
(of all threads), and say what a core to itself would do. Two cameras of 64x64, 4 critics. The residual network is a
ResNet-18 with random weights, which takes as long as a trained one.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from made_up import spec_of, transitions_of
from safetensors.torch import save_file
from table_runs import make_parser, processor_seconds, write_json
from torch import Tensor

from robo_rl.agents.drq import DrQ, DrQConfig, EncoderConfig
from robo_rl.core import ArraySpec, RewardWeights, generator
from robo_rl.replay import MixedSampler, ReplayRing

REPETITIONS = 3
TRANSITIONS = 200
VIEWS = 4
CAMERAS = ("images/front", "images/wrist")
SPEC = spec_of(
    {"state": ArraySpec((32,))} | {key: ArraySpec((64, 64, 3), "uint8") for key in CAMERAS}, action=4, episode_steps=50
)


def random_resnet18() -> dict[str, Tensor]:
    """Return weights with the names and shapes of torchvision's ResNet-18."""
    tensors: dict[str, Tensor] = {}

    def convolution(name: str, norm: str, inputs: int, outputs: int, size: int) -> None:
        tensors[f"{name}.weight"] = torch.randn(outputs, inputs, size, size) / (size * inputs**0.5)
        tensors[f"{norm}.weight"] = tensors[f"{norm}.running_var"] = torch.ones(outputs)
        tensors[f"{norm}.bias"] = tensors[f"{norm}.running_mean"] = torch.zeros(outputs)

    convolution("conv1", "bn1", 3, 64, 7)
    inputs = 64
    for stage, outputs in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name = f"layer{stage}.{block}"
            convolution(f"{name}.conv1", f"{name}.bn1", inputs, outputs, 3)
            convolution(f"{name}.conv2", f"{name}.bn2", outputs, outputs, 3)
            if inputs != outputs:
                convolution(f"{name}.downsample.0", f"{name}.downsample.1", inputs, outputs, 1)
            inputs = outputs
    return {name: tensor.clone() for name, tensor in tensors.items()}


class Contestant:
    """An agent and the replay it learns from."""

    def __init__(self, batch_size: int, encoder: EncoderConfig, precision: str = "float32") -> None:
        config = DrQConfig(encoder=encoder, precision=precision, batch_size=batch_size, normalise_observations=False)
        self.agent = DrQ(config, SPEC, 0)
        data = transitions_of(SPEC, TRANSITIONS)
        rings = [ReplayRing(2 * len(data), SPEC, extractor=self.agent.features) for _ in range(2)]
        began = time.process_time()
        for ring in rings:
            ring.append(data)
            ring.rows.compute_features()
        self.insertion = (time.process_time() - began) / (2 * len(data))
        weights = RewardWeights({"success": 1.0})
        self.sampler = MixedSampler(*rings, 0.5, 0.97, 1, weights, generator(0, "sampler"))
        self.rows = batch_size
        self.batch = self.sampler.sample(batch_size, batch_size)

    def sample(self) -> object:
        return self.sampler.sample(self.rows, self.rows)

    def update(self) -> object:
        return self.agent.update(self.batch)


def main() -> None:
    parser = make_parser(__doc__, "--json")
    parser.add_argument("--batch-size", type=int, default=DrQConfig().batch_size)
    options = parser.parse_args()
    batch_size = options.batch_size
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "resnet18.safetensors"
        save_file(random_resnet18(), file)
        frozen = {"checkpoint": str(file), "head": "spatial_embeddings"}
        contestants = {
            "small convolutions": Contestant(batch_size, EncoderConfig()),
            "small convolutions, bfloat16": Contestant(batch_size, EncoderConfig(), "bfloat16"),
            "frozen ResNet-18, recomputed": Contestant(batch_size, EncoderConfig(**frozen)),
            "frozen ResNet-18, cached": Contestant(batch_size, EncoderConfig(**frozen, cached_views=VIEWS)),
        }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant.update()
    for _ in range(REPETITIONS):
        for name, contestant in contestants.items():
            times[name].append((processor_seconds(contestant.sample), processor_seconds(contestant.update)))
    print(f"batch size {batch_size}, {torch.get_num_threads()} threads; processor time")
    print(f"{'agent':<32} {'updates/s':>10} {'sample ms':>10} {'update ms':>10} {'insert ms':>10}")
    rates, rows = {}, []
    for name, pairs in times.items():
        sample, update = np.median(np.array(pairs), axis=0)
        rates[name] = 1 / (sample + update)
        insertion = 1e3 * contestants[name].insertion
        figures = {"rate": rates[name], "sample": 1e3 * sample, "update": 1e3 * update, "insertion": insertion}
        rows.append({"agent": name, **{key: float(value) for key, value in figures.items()}})
        print(f"{name:<32} {rates[name]:10.1f} {1e3 * sample:10.1f} {1e3 * update:10.1f} {insertion:10.1f}")
    gain = rates["frozen ResNet-18, cached"] / rates["frozen ResNet-18, recomputed"]
    print(f"cached features are {gain:.0f} times as fast as recomputed ones")
    found = {"batch_size": batch_size, "threads": torch.get_num_threads(), "rows": rows, "gain": float(gain)}
    write_json(options.json, found)


if __name__ == "__main__":
    main()
