"""Adversarial actions through the whole filter chain, with safety on and off, and what the filters cost.

The joints of the simulated arm follow every executed action exactly (no dynamics soften it), so what is counted are
violations at the executed level. Streams: uniform, bang-bang, NaN and infinity now and then, and a Gaussian policy that
policy-gradient ascent (REINFORCE) trains to violate limits.

    python tests/benchmarks/bench_safety.py [--actions 20000] [--seconds SECONDS] [--seed 0]

The full stream is ``--actions 1000000``; ``--seconds`` ends it early, and as many actions then go without safety.
"""

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

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
KINDS = ("position", "velocity", "acceleration", "jerk", "collision")


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
        self.clearances = Clearances(robot, self.kinematics, ("table",), reach=0.15)
        self._first = {key: value.copy() for key, value in self.backend.reset(0).observation.items()}
        self._lower, self._upper = np.array(robot.command_lower), np.array(robot.command_upper)
        self._limits = {key: np.array(getattr(PANDA, key)) for key in ("velocity", "acceleration", "jerk")}
        self.reset()

    def reset(self) -> None:
        """Stand at home, at rest."""
        self.observation = {key: value.copy() for key, value in self._first.items()}
        self._velocity, self._acceleration = np.zeros(7), np.zeros(7)

    def execute(self, action: NDArray[np.float32]) -> list[str]:
        """Move as ``action`` says; return the names of the limits that this violates."""
        period = self.actions.period
        motion = self.actions.motion(self.observation, action).joints
        joints = self.reader.joint_positions(self.observation) + motion
        velocity = motion / period
        acceleration = (velocity - self._velocity) / period
        jerk = (acceleration - self._acceleration) / period
        slack, rounding = 1 + 1e-4, 1e-3  # actions are float32
        broken = {
            "position": (joints < self._lower - 1e-5).any() or (joints > self._upper + 1e-5).any(),
            "velocity": (np.abs(velocity) > self._limits["velocity"] * slack).any(),
            "acceleration": (np.abs(acceleration) > self._limits["acceleration"] * slack + rounding).any(),
            "jerk": (np.abs(jerk) > self._limits["jerk"] * slack + 1e-1).any(),
            "collision": self.clearances.smallest(joints) <= 0.0,
        }
        self._velocity, self._acceleration = velocity, acceleration
        state = self.observation["state"].copy()
        state[: len(joints)] = np.clip(joints, self._lower - 0.5, self._upper + 0.5)
        self.kinematics.place(joints)
        state[14:17] = self.kinematics.data.site_xpos[self.backend.model.site("end_effector").id]
        self.observation["state"] = state
        return [name for name, is_broken in broken.items() if is_broken]


class Adversary:
    """A linear Gaussian policy on joint positions, trained by REINFORCE to violate limits.

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

    def learn(self, violations: float) -> None:
        """One step of gradient ascent at the end of an episode."""
        advantage = violations - self._baseline
        self._baseline += 0.1 * advantage
        gradient = sum((np.outer(noise, features) for noise, features in self._trail), np.zeros((8, 8)))
        length = max(float(np.linalg.norm(gradient)), 1e-9)
        self._weights += 0.05 * np.sign(advantage) * gradient / length
        self._trail.clear()


class Outcome(NamedTuple):
    """Of a stream: violations by kind, and how many actions there were and were changed, in how many seconds."""

    violations: Counter[str]
    actions: int
    changed: int
    seconds: float


def run(arm: ExactArm, chain: FilterChain | None, actions: int, seed: int, seconds: float = math.inf) -> Outcome:
    """Put ``actions`` through ``chain`` (None: none), in whole episodes and for ``seconds`` at most [s]."""
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
    found: Counter[str] = Counter()
    changed, done, began = 0, 0, time.monotonic()
    while done < actions and time.monotonic() - began < seconds:
        kind = int(rng.integers(len(streams)))
        arm.reset()
        if chain is not None:
            chain.reset()
        violations = 0
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
            broken = arm.execute(executed)
            found.update(broken)
            violations += len(broken)
        if kind == 4:
            adversary.learn(violations)
    return Outcome(found, done, changed, time.monotonic() - began)


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


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--actions", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arm = ExactArm()
    config = SafetyConfig(joints=PANDA, barrier=BarrierConfig(keep_out=("table",)), violation_budget=0)
    plain = SafetyConfig(joints=PANDA, barrier=BarrierConfig(enabled=False), violation_budget=0)
    safe = run(arm, make_filter_chain(arm.backend.spec, arm.robot, config), arguments.actions, arguments.seed,
               arguments.seconds)  # fmt: skip
    for name, outcome in (("on", safe), ("off", run(arm, None, safe.actions, arguments.seed))):
        counts = ", ".join(f"{kind} {outcome.violations[kind]:,}" for kind in KINDS)
        print(
            f"safety {name}: {outcome.actions:,} actions, {outcome.changed:,} changed, violations: {counts} "
            f"({outcome.seconds:.0f} s)"
        )
    for name, settings in (("without the barrier", plain), ("with the barrier", config)):
        microseconds = cost(arm, make_filter_chain(arm.backend.spec, arm.robot, settings))
        print(f"filter chain {name}: {microseconds:.0f} us an action (median)")


if __name__ == "__main__":
    main()
