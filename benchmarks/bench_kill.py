"""Time until the fake arm is at rest after kill -9 of its actor in fast motion, again and again.

    python benchmarks/bench_kill.py [--kills 20]

Exits with 1 if it was once more than 500 ms, or a limit was exceeded.
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.rigs.watched_arm import kill_in_motion

REST_SECONDS = 0.5


def main() -> int:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kills", type=int, default=20)
    kills = parser.parse_args().kills
    found = []
    for number in range(1, kills + 1):
        found.append(kill_in_motion())
        print(
            f"kill {number}: from {found[-1].speed:.2f} rad/s to rest in {1000 * found[-1].seconds:.0f} ms", flush=True
        )
    seconds = [each.seconds for each in found]
    outside = sum(not each.within_limits for each in found)
    print(
        f"{kills} kills: at rest after {1000 * statistics.median(seconds):.0f} ms (median), "
        f"{1000 * max(seconds):.0f} ms (longest); limits exceeded in {outside}"
    )
    return int(max(seconds) > REST_SECONDS or outside > 0)


if __name__ == "__main__":
    sys.exit(main())
