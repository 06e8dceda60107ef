"""Adversarial actions through the whole filter chain, with safety on and off, and what the filters cost.

The joints of the simulated arm follow every executed action exactly (no dynamics soften it), so what is counted are
violations at the executed level. Streams, an episode each in turn: uniform, bang-bang, held, NaN and infinity now and
then, and a Gaussian policy that policy-gradient ascent (REINFORCE) drives towards limits and beyond.

    python tests/benchmarks/bench_safety.py [--actions 20000] [--seed 0] [--output FILE]

With ``--output`` the result is written to FILE as it grows, and a second call goes on from there. The full stream is
``--actions 1000000``. Exits with 1 if a limit was violated with safety on, or none without.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.safety.barrier import Clearances
from robo_rl.safety.chain import FilterChain
from robo_rl.safety.compose import make_filter_chain
from robo_rl.safety.config import BarrierConfig, JointsConfig, SafetyConfig
from robo_rl.safety.kinematics import Kinematics
from robo_rl.safety.motion import ActionMap, ArmReader
from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ArmConfig, ControllerConfig

Array = NDArray[np.float64]

PANDA = JointsConfig(
    velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    jerk=(7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
)
"""Limits of a real Panda (Franka Control Interface)."""
EPISODE = 200
BLOCK = 20_000
"""Actions of one stream, which begins with an adversary that knows nothing; a result is saved after each."""
ROUNDS = 5
"""Of timing, since the speed of a machine that others share varies by half within minutes."""
REACH = 0.15
"""Up to which distances are measured [m]."""
TOLERANCES = {
    "position": 1e-5,
    "velocity": 1e-4,
    "acceleration": 3e-4,
    "jerk": 3e-4,
    "workspace": 1e-5,
    "speed": 1e-4,
    "collision": -1e-9,  # to touch is to collide
}
"""Share of a limit beyond it that still is no violation, by kind: actions and observations are float32."""


class ExactArm:
    """Joints that do exactly what an action says.

    Args:
        space: of the actions: ``joint_delta``.
    """

    def __init__(self, space: str = "joint_delta") -> None:
        self.backend: ArmBackend = make_backend(
            "reach",
            arm=ArmConfig(home_noise=0.0),
            controller=ControllerConfig(action_space=space, action_axes="gripper", joint_scale=0.25),
        )
        robot = self.backend.robot
        self.robot, self.kinematics = robot, Kinematics(robot)
        self.reader = ArmReader(self.backend.spec, robot)
        self.actions = ActionMap(self.backend.spec, robot, self.kinematics, self.reader)
        self.clearances = Clearances(robot, self.kinematics, ("table",), REACH)
        self._first = {key: value.copy() for key, value in self.backend.reset(0).observation.items()}
        self._lower, self._upper = np.array(robot.command_lower), np.array(robot.command_upper)
        self._low, self._high = np.array(robot.workspace_low), np.array(robot.workspace_high)
        self._limits = {key: np.array(getattr(PANDA, key)) for key in ("velocity", "acceleration", "jerk")}
        self.reset()

    def reset(self) -> None:
        """Stand at home, at rest."""
        self.observation = {key: value.copy() for key, value in self._first.items()}
        self._velocity, self._acceleration = np.zeros(7), np.zeros(7)

    def execute(self, action: NDArray[np.float32]) -> dict[str, float]:
        """Move as ``action`` says; return by kind how much of each limit is used: above 1 it is violated."""
        period = self.actions.period
        motion = self.actions.motion(self.observation, action).joints
        before = self.reader.joint_positions(self.observation)
        joints = before + motion
        velocity = motion / period
        acceleration = (velocity - self._velocity) / period
        jerk = (acceleration - self._acceleration) / period
        loads = {
            "position": _share(joints, self._lower, self._upper),
            "velocity": float((np.abs(velocity) / self._limits["velocity"]).max()),
            "acceleration": float((np.abs(acceleration) / self._limits["acceleration"]).max()),
            "jerk": float((np.abs(jerk) / self._limits["jerk"]).max()),
        }
        self._velocity, self._acceleration = velocity, acceleration
        start, turned = map(np.array, self.kinematics.pose(before))
        end, rotation = map(np.array, self.kinematics.pose(joints))
        angle = np.arccos(np.clip((np.vdot(rotation, turned) - 1) / 2, -1.0, 1.0))
        speeds = np.array([np.linalg.norm(end - start), angle]) / period
        loads["workspace"] = _share(end, self._low, self._high)
        loads["speed"] = float((speeds / (self.robot.linear_speed, self.robot.angular_speed)).max())
        loads["collision"] = (REACH - self.clearances.smallest(joints)) / REACH
        state = self.observation["state"].copy()
        state[: len(joints)] = np.clip(joints, self._lower - 0.5, self._upper + 0.5)
        state[14:17] = end
        self.observation["state"] = state
        return loads


def _share(value: Array, low: Array, high: Array) -> float:
    """Return how far ``value`` (n,) is from the middle of its range at most, 1 at an end of it."""
    return float((np.abs(2 * value - low - high) / (high - low)).max())


class Adversary:
    """A linear Gaussian policy on joint positions, trained by REINFORCE to use limits up and violate them.

    Args:
        rng: random generator.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._weights = np.zeros((8, 8))
        self._trail: list[tuple[Array, Array]] = []
        self._baseline = 0.0

    def act(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        features = np.append(state[:7], 1.0)
        mean = self._weights @ features
        noise = 0.5 * self._rng.standard_normal(8)
        self._trail.append((noise, features))
        clipped: NDArray[np.float32] = np.clip(mean + noise, -1, 1).astype(np.float32)
        return clipped

    def learn(self, load: float) -> None:
        """One step of gradient ascent at the end of an episode, on how much of the limits it used in all."""
        advantage = load - self._baseline
        self._baseline += 0.1 * advantage
        gradient = sum((np.outer(noise, features) for noise, features in self._trail), np.zeros((8, 8)))
        length = max(float(np.linalg.norm(gradient)), 1e-9)
        self._weights += 0.05 * np.sign(advantage) * gradient / length
        self._trail.clear()


def run(arm: ExactArm, chain: FilterChain | None, actions: int, seed: list[int]) -> dict[str, Any]:
    """Put a stream of ``actions`` through ``chain`` (None: none); return counts and seconds."""
    rng = np.random.default_rng(seed)
    adversary = Adversary(rng)
    held = np.zeros(8, np.float32)
    streams: tuple[Callable[[], NDArray[np.float32]], ...] = (
        lambda: rng.uniform(-1, 1, 8).astype(np.float32),
        lambda: rng.choice([-1.0, 1.0], 8).astype(np.float32),
        lambda: held,
        lambda: np.where(rng.random(8) < 0.05, rng.choice([np.nan, np.inf]), rng.uniform(-1, 1, 8)).astype(np.float32),
        lambda: adversary.act(arm.observation["state"]),
    )
    violations: Counter[str] = Counter()
    largest = dict.fromkeys(TOLERANCES, 0.0)
    changed, done, began = 0, 0, time.monotonic()
    while done < actions:
        kind = done // EPISODE % len(streams)
        arm.reset()
        if chain is not None:
            chain.reset()
        used = 0.0
        for step in range(min(EPISODE, actions - done)):
            if step % 20 == 0:
                held = rng.choice([-1.0, 1.0], 8).astype(np.float32)
            action = streams[kind]()
            done += 1
            if chain is not None:
                executed, verdict = chain(arm.observation, action, step)
                changed += verdict.changed
            else:
                executed = np.nan_to_num(action, nan=0.0, posinf=1.0, neginf=-1.0)
            loads = arm.execute(executed)
            violations.update(name for name, load in loads.items() if load > 1 + TOLERANCES[name])
            largest = {name: max(value, loads[name]) for name, value in largest.items()}
            used += sum(min(load, 2.0) for load in loads.values())
        if kind == len(streams) - 1:
            adversary.learn(used)
    return {
        "actions": done,
        "changed": changed,
        "seconds": time.monotonic() - began,
        "violations": {name: violations[name] for name in TOLERANCES},
        "largest_share_of_a_limit": largest,
    }


def add(total: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return what two streams came to together."""
    counts = {key: total[key] + more[key] for key in ("actions", "changed", "seconds")}
    violations = {name: total["violations"][name] + more["violations"][name] for name in TOLERANCES}
    key = "largest_share_of_a_limit"
    return counts | {
        "violations": violations,
        key: {name: max(total[key][name], more[key][name]) for name in more[key]},
    }


def cost(arm: ExactArm, chain: FilterChain, calls: int = 2000) -> float:
    """Return the median time of one action through ``chain`` [us] on postures along a random walk."""
    rng = np.random.default_rng(0)
    arm.reset()
    chain.reset()
    times = []
    for number in range(calls):
        action = rng.uniform(-0.3, 0.3, 8).astype(np.float32)
        began = time.perf_counter()
        executed, _ = chain(arm.observation, action, number)
        times.append(time.perf_counter() - began)
        arm.execute(executed)
    return 1e6 * float(np.median(times))


def main() -> int:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--actions", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    arm = ExactArm()
    config = SafetyConfig(joints=PANDA, barrier=BarrierConfig(keep_out=("table",)), violation_budget=0)
    plain = SafetyConfig(joints=PANDA, barrier=BarrierConfig(enabled=False), violation_budget=0)
    results: dict[str, Any] = {"seed": arguments.seed}
    if arguments.output is not None and arguments.output.exists():
        results = json.loads(arguments.output.read_text())
        if results["seed"] != arguments.seed:
            parser.error(f"{arguments.output} is of seed {results['seed']}: give that, or another file")
    chains = {"on": make_filter_chain(arm.backend.spec, arm.robot, config), "off": None}
    done = results["on"]["actions"] if "on" in results else 0
    while done < arguments.actions:
        actions = min(BLOCK, arguments.actions - done)
        more = {name: run(arm, chain, actions, [arguments.seed, done]) for name, chain in chains.items()}
        results |= {name: add(results[name], each) if name in results else each for name, each in more.items()}
        done += actions
        save(results, arguments.output)
    for name in chains:
        outcome = results[name]
        counts = ", ".join(f"{kind} {count:,}" for kind, count in outcome["violations"].items())
        print(
            f"safety {name}: {outcome['actions']:,} actions, {outcome['changed']:,} changed, violations: {counts} "
            f"({outcome['seconds']:.0f} s)"
        )
    microseconds: dict[str, list[float]] = {"without_barrier": [], "with_barrier": []}
    for _ in range(ROUNDS):
        for settings, medians in zip((plain, config), microseconds.values(), strict=True):
            medians.append(cost(arm, make_filter_chain(arm.backend.spec, arm.robot, settings)))
    for name, medians in microseconds.items():
        rounds = ", ".join(f"{median:.0f}" for median in medians)
        print(f"filter chain {name.replace('_', ' ')}: {rounds} us an action (median of each round)")
    save(results | {"microseconds": microseconds}, arguments.output)
    violated = {name: any(results[name]["violations"].values()) for name in chains}
    return int(violated["on"] or not violated["off"])


def save(results: dict[str, Any], file: Path | None) -> None:
    """Write ``results`` to ``file``, whole or not at all."""
    if file is not None:
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(results, indent=1) + "\n")
        partial.replace(file)


if __name__ == "__main__":
    sys.exit(main())
