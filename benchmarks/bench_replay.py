"""Duration of sampling: the replay ring beside a store that keeps every array of every transition.

python benchmarks/bench_replay.py [--json FILE]

Prints the median of repeated calls [ms]; both stores are measured in turns within one run, so that the ratio does not
depend on what else the machine does.
"""

import time
from collections.abc import Callable

import numpy as np
from made_up import spec_of, transitions_of
from table_runs import make_parser, write_json

from robo_rl.core import ArraySpec, Batch, EnvSpec, RewardWeights, Transition, generator
from robo_rl.replay import MixedSampler, ReplayRing

REPETITIONS = 40
GAMMA = 0.99
TERMS = ("success", "distance", "effort")


class ArrayPerField:
    """The usual store: each transition with its own next observation, fancy indexing, minibatch by minibatch."""

    def __init__(self, spec: EnvSpec, transitions: list[Transition]) -> None:
        self._arrays: Batch = {}
        for key in spec.observation:
            self._arrays[f"observation/{key}"] = np.stack([t.observation[key] for t in transitions])
            self._arrays[f"next_observation/{key}"] = np.stack([t.next_observation[key] for t in transitions])
        self._arrays["action"] = np.stack([t.executed_action for t in transitions])
        self._arrays["proposed_action"] = np.stack([t.proposed_action for t in transitions])
        self._arrays["reward"] = np.array([sum(t.rewards.values()) for t in transitions], np.float32)
        self._arrays["discount"] = np.array([GAMMA * (not t.terminated) for t in transitions], np.float32)
        self.nbytes = sum(array.nbytes for array in self._arrays.values())

    def sample(self, rows: int, rng: np.random.Generator) -> Batch:
        indices = rng.integers(0, len(self._arrays["reward"]), rows)
        return {key: array[indices] for key, array in self._arrays.items()}


def sample_mixed(online: ArrayPerField, demonstrations: ArrayPerField, rows: int, block: int, rng) -> list[Batch]:
    """Each minibatch by itself, halves concatenated."""
    result = []
    for _ in range(rows // block):
        halves = [store.sample(block // 2, rng) for store in (demonstrations, online)]
        result.append({key: np.concatenate([half[key] for half in halves]) for key in halves[0]})
    return result


def measure(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median duration of each call [ms], taken in turns."""
    durations: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(REPETITIONS):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            durations[name].append(1e3 * (time.perf_counter() - began))
    return {name: float(np.median(values)) for name, values in durations.items()}


def compare(title: str, spec: EnvSpec, online: int, demonstrations: int, rows: int, block: int) -> dict[str, object]:
    """Print and return the durations [ms] and sizes [MB] of both stores."""
    reward = RewardWeights(dict.fromkeys(TERMS, 1.0))
    stream = transitions_of(spec, online), transitions_of(spec, demonstrations)
    rings = [ReplayRing(len(part) + len(part) // 100 + 2, spec) for part in stream]
    for ring, part in zip(rings, stream, strict=True):
        ring.append(part)
    naive = [ArrayPerField(spec, part) for part in stream]
    rng = np.random.default_rng(0)
    one_step = MixedSampler(*rings, 0.5, GAMMA, 1, reward, generator(0, "one"))
    three_steps = MixedSampler(*rings, 0.5, GAMMA, 3, reward, generator(0, "three"))
    durations = measure(
        {
            "ring, 1-step returns": lambda: one_step.sample(rows, block),
            "ring, 3-step returns": lambda: three_steps.sample(rows, block),
            "array per field, 1-step returns": lambda: sample_mixed(*naive, rows, block, rng),
        }
    )
    print(title)
    for name, duration in durations.items():
        print(f"  {name:<34} {duration:8.3f} ms")
    sizes = {
        "ring": sum(ring.memory_bytes for ring in rings) / 1e6,
        "array per field": sum(store.nbytes for store in naive) / 1e6,
    }
    print("  memory: " + ", ".join(f"{name} {size:.0f} MB" for name, size in sizes.items()))
    return {"rows": title, "milliseconds": durations, "megabytes": sizes}


def main() -> None:
    parser = make_parser(__doc__, "--json")
    options = parser.parse_args()
    state = spec_of({"state": ArraySpec((40,))}, reward_terms=TERMS)
    results = [
        compare(
            "5,120 rows of state (40), action (7), 20 minibatches, half demonstrations",
            state,
            50_000,
            2_000,
            5_120,
            256,
        )
    ]
    cameras = {f"images/{name}": ArraySpec((128, 128, 3), "uint8") for name in ("front", "wrist")}
    pixels = spec_of({"state": ArraySpec((20,)), **cameras}, reward_terms=TERMS)
    title = "256 rows with two 128x128 cameras, 1 minibatch, half demonstrations"
    results.append(compare(title, pixels, 4_000, 1_000, 256, 256))
    write_json(options.json, results)


if __name__ == "__main__":
    main()
