"""Cost of a call of sandboxed reward code: python benchmarks/bench_reward_code.py."""

import time

import numpy as np

from robo_rl.rewards.sandbox.process import Sandbox

CODE = """def reward(x, y, z, hinge_angle, action_x):
    distance = sqrt(square(x) + square(y) + square(z))
    return where(distance < 0.03, hinge_angle, -distance) - 0.01 * square(action_x)
"""
ROUNDS = 200


def main() -> None:
    """Print the median time of a call for some numbers of rows."""
    sandbox = Sandbox(CODE, cpu_seconds=2, memory_megabytes=256)
    for rows in (1, 256, 10_000):
        columns = np.random.default_rng(0).normal(size=(5, rows))
        sandbox(columns)
        seconds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            sandbox(columns)
            seconds.append(time.perf_counter() - began)
        print(f"{rows:6,} rows: {np.median(seconds) * 1e6:6,.0f} us a call")


if __name__ == "__main__":
    main()
