"""kill -9 of actor, robot and learner in turn, while the robot resets, steps and is held, again and again.

    python benchmarks/bench_restarts.py [--tries 60] [--output docs/measured/results/restarts.json]

Exits with 1 if two resets ran at once, the robot obeyed a command while it was reset, or stood still for more than 5 s
without a line in the training's terminal.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.rigs.restart_rig import PHASES, SILENT_SECONDS, TARGETS, Outcome, restart_rig


def main() -> int:
    """Try, and print what came of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--tries", type=int, default=60)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"  # its stops stop nobody else
        with restart_rig(Path(folder)) as rig:
            cases = itertools.cycle(itertools.product(TARGETS, PHASES))
            for number, (target, phase) in enumerate(itertools.islice(cases, arguments.tries), start=1):
                outcomes.append(rig.attempt(target, phase))
                print(f"{number}: {outcomes[-1]}", flush=True)
                if arguments.output is not None:
                    arguments.output.write_text(json.dumps(summary(outcomes), indent=1) + "\n")
    found = summary(outcomes)
    print(json.dumps({key: value for key, value in found.items() if key != "tries"}, indent=1))
    faults = found["resets_at_once"] + found["commands_in_resets"]
    return int(faults > 0 or found["longest_silence_seconds"] > SILENT_SECONDS)


def summary(outcomes: list[Outcome]) -> dict[str, object]:
    """Return what came of all tries."""
    cases = Counter(f"{each.target} in {each.phase}" for each in outcomes)
    return {
        "cases": dict(sorted(cases.items())),
        "resets_at_once": sum(each.resets_at_once for each in outcomes),
        "commands_in_resets": sum(each.commands_in_resets for each in outcomes),
        "longest_silence_seconds": max((each.silent_seconds for each in outcomes), default=0.0),
        "longest_back_seconds": max((each.back_seconds for each in outcomes), default=0.0),
        "a_person_had_to_look": sum(each.person for each in outcomes),
        "tries": [each._asdict() for each in outcomes],
    }


if __name__ == "__main__":
    sys.exit(main())
