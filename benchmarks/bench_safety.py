"""Adversarial actions through the whole filter chain, for three arms at four rates, with safety on and off.

The joints of the arms follow every executed action exactly (no dynamics soften it), so violations are counted at the
executed level: positions, velocities, accelerations and jerks of joints, box and speed of the end effector, clearance.
Each arm and rate is tried in every action space with every set of limits. Streams, an episode each in turn: uniform,
bang-bang, held, resonant, ramps, NaN and infinity now and then, and a Gaussian policy that policy-gradient ascent
(REINFORCE) drives towards limits and beyond.

    python benchmarks/bench_safety.py [--actions 4000] [--arm panda] [--rate 50] [--seed 0] [--output FILE]

``--actions`` is the number for each arm and rate, divided among action spaces and limit sets. With ``--output`` the
result is written to FILE as it grows, and a second call goes on from there. The published stream is
``--actions 1000000``. A tenth of it goes past the filters, too, to show that it violates. Exits with 1 if a limit was
violated with safety on, or none of a row without.
"""

import argparse
import gc
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from robo_rl.core import ConfigError
from tests.rigs.exact_arm import CASES, TOLERANCES, ExactArm, Stream

Array = NDArray[np.float64]
Row = dict[str, Any]

RATES = (10, 50, 200, 1000)
SPACES = (
    ("joint_delta", "", "base"),
    ("joint_position", "", "base"),
    ("end_effector_delta", "xyz", "base"),
    ("end_effector_delta", "xyz+rotation", "base"),
    ("end_effector_delta", "xyz+rotation", "end_effector"),
    ("end_effector_delta", "x+y+yaw", "end_effector"),
)
"""Action space, axes and frame."""
EPISODE = 250
KINDS = (*Stream.KINDS, "policy")


class Adversary:
    """A linear Gaussian policy on joint positions, trained by REINFORCE to use limits up and violate them.

    Args:
        size: of an action.
        features: number of joints.
        rng: random generator.
    """

    def __init__(self, size: int, features: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self._weights = np.zeros((size, features + 1))
        self._trail: list[tuple[Array, Array]] = []
        self._baseline = 0.0

    def act(self, joints: Array) -> NDArray[np.float32]:
        features = np.append(joints, 1.0)
        noise = 0.5 * self._rng.standard_normal(len(self._weights))
        self._trail.append((noise, features))
        clipped: NDArray[np.float32] = np.clip(self._weights @ features + noise, -1, 1).astype(np.float32)
        return clipped

    def learn(self, load: float) -> None:
        """One step of gradient ascent at the end of an episode, on how much of the limits it used in all."""
        advantage = load - self._baseline
        self._baseline += 0.1 * advantage
        gradient = sum((np.outer(noise, features) for noise, features in self._trail), np.zeros_like(self._weights))
        length = max(float(np.linalg.norm(gradient)), 1e-9)
        self._weights += 0.05 * np.sign(advantage) * gradient / length
        self._trail.clear()


def run(arm: ExactArm, filtered: bool, actions: int, seed: list[int]) -> Row:
    """Return what a stream of ``actions`` came to, through the filter chain or past it."""
    chain = arm.chain() if filtered else None
    stream = Stream(arm.size, seed)
    adversary = Adversary(arm.size, len(arm.lower), np.random.default_rng([*seed, 1]))
    violations: Counter[str] = Counter()
    largest = dict.fromkeys(TOLERANCES, 0.0)
    changed, times = 0, np.zeros(actions if filtered else 0)
    for done in range(actions):
        step, kind = done % EPISODE, KINDS[done // EPISODE % len(KINDS)]
        if step == 0:
            arm.reset()
            used = 0.0
            if chain is not None:
                chain.reset()
        joints = arm.reader.joint_positions(arm.observation)
        action = adversary.act(joints) if kind == "policy" else stream(kind, step)
        executed = np.nan_to_num(action, nan=0.0, posinf=1.0, neginf=-1.0)
        if chain is not None:
            began = time.perf_counter()
            executed, verdict = chain(arm.observation, action, step)
            times[done] = time.perf_counter() - began
            changed += verdict.changed
        loads = arm.execute(executed)
        violations.update(name for name, load in loads.items() if load > 1 + TOLERANCES[name])
        largest = {name: max(value, loads[name]) for name, value in largest.items()}
        used += sum(min(load, 2.0) for load in loads.values())
        if kind == "policy" and step == EPISODE - 1:
            adversary.learn(used)
    result: Row = {
        "actions": actions,
        "violations": {name: violations[name] for name in TOLERANCES},
        "largest_share_of_a_limit": {name: float(f"{value:.7g}") for name, value in largest.items()},
    }
    if filtered:
        microseconds = 1e6 * times
        cost = {"median": np.median(microseconds), "p99": np.percentile(microseconds, 99), "max": microseconds.max()}
        result |= {"changed": changed, "microseconds": {name: round(float(value), 1) for name, value in cost.items()}}
    return result


def measure(key: Row, actions: int, seed: int) -> Row:
    """Return a row, which says ``refused`` where rounding alone would break the limits."""
    arm = ExactArm(key["arm"], key["space"], key["rate"], key["limits"], key["axes"] or "xyz", key["frame"])
    number = list(CASES).index(key["arm"]), key["rate"], SPACES.index((key["space"], key["axes"], key["frame"]))
    numbers = [seed, *number, list(CASES[key["arm"]].limits).index(key["limits"])]
    gc.collect()
    gc.freeze()  # as the programs do: collections would stop a control loop
    try:
        return key | {"on": run(arm, True, actions, numbers), "off": run(arm, False, max(actions // 10, 1), numbers)}
    except ConfigError as error:
        return key | {"refused": str(error)}


def rows_of(arms: list[str], rates: list[int]) -> list[Row]:
    """Return what is tried, one row for each action space and limit set of an arm at a rate."""
    return [
        {"arm": arm, "rate": rate, "space": space, "axes": axes, "frame": frame, "limits": limits}
        for rate in rates
        for arm in arms
        for space, axes, frame in SPACES
        for limits in CASES[arm].limits
    ]


def summary(rows: list[Row]) -> list[Row]:
    """Return one row for each arm and rate."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if "refused" not in row:
            groups.setdefault((row["arm"], row["rate"]), []).append(row)
    return [
        {
            "arm": arm,
            "rate": rate,
            "actions": sum(row["on"]["actions"] for row in group),
            "changed": sum(row["on"]["changed"] for row in group),
            "violations_on": sum(sum(row["on"]["violations"].values()) for row in group),
            "violations_off": {
                kind: sum(row["off"]["violations"][kind] for row in group) for kind in group[0]["off"]["violations"]
            },
            "actions_off": sum(row["off"]["actions"] for row in group),
            "median_us": float(np.median([row["on"]["microseconds"]["median"] for row in group])),
            "largest_median_us": max(row["on"]["microseconds"]["median"] for row in group),
            "period_us": 1e6 / rate,
        }
        for (arm, rate), group in groups.items()
    ]


def main() -> int:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--actions", type=int, default=4000)
    parser.add_argument("--arm", choices=list(CASES), action="append")
    parser.add_argument("--rate", type=int, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results: Row = {"seed": arguments.seed, "actions": arguments.actions, "rows": []}
    if arguments.output is not None and arguments.output.exists():
        results = json.loads(arguments.output.read_text())
        if (results["seed"], results["actions"]) != (arguments.seed, arguments.actions):
            parser.error(f"{arguments.output} is of other --seed or --actions: give those, or another file")
    rows: list[Row] = results["rows"]
    wanted = rows_of(arguments.arm or list(CASES), arguments.rate or list(RATES))
    for key in wanted:
        if any(key.items() <= row.items() for row in rows):
            continue
        parts = sum(each["arm"] == key["arm"] for each in rows_of([key["arm"]], [key["rate"]]))
        row = measure(key, math.ceil(arguments.actions / parts), arguments.seed)
        rows.append(row)
        results["summary"] = summary(rows)
        save(results, arguments.output)
        print(_line(row), flush=True)
    for group in summary(rows):
        print(json.dumps(group))
    measured = [row for row in rows if "refused" not in row]
    safe = not any(any(row["on"]["violations"].values()) for row in measured)
    return int(not (safe and all(any(row["off"]["violations"].values()) for row in measured)))


def _line(row: Row) -> str:
    name = " ".join(str(row[key]) for key in ("arm", "rate", "space", "axes", "frame", "limits") if row[key])
    if "refused" in row:
        return f"{name}: refused: {row['refused']}"
    on, off = (
        ", ".join(f"{kind} {count:,}" for kind, count in row[key]["violations"].items() if count) or "none"
        for key in ("on", "off")
    )
    cost = row["on"]["microseconds"]
    return (
        f"{name}: {row['on']['actions']:,} actions, {row['on']['changed']:,} changed, violations: {on}; without safety "
        f"(of {row['off']['actions']:,}): {off}; {cost['median']:.0f} us (p99 {cost['p99']:.0f})"
    )


def save(results: Row, file: Path | None) -> None:
    """Write ``results`` to ``file``, whole or not at all."""
    if file is not None:
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(results, indent=1) + "\n")
        partial.replace(file)


if __name__ == "__main__":
    sys.exit(main())
