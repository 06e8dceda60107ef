"""A learner that is killed at random moments, and one that receives malformed packets.

python benchmarks/bench_faults.py [--output FILE.json]

The learner is a process of its own: 20 times it is killed (SIGKILL) while an actor sends, and what it stored is
compared, bit for bit, with what the actor made and with the replay memory of a learner that starts again. Then it gets
100,000 malformed packets; its memory is watched, and afterwards an honest actor must be served. The checks are those of
tests/fault, only more of them.
"""

import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from table_runs import make_parser, write_json

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.rigs.learner_process import LearnerProcess, survive_kills
from tests.rigs.malformed_packets import MalformedPackets
from tests.rigs.replay_episodes import assert_same
from tests.rigs.transport_rig import ActorRig, steps_of, stored_steps

KILLS = 20
PACKETS = 100_000
WARM_PACKETS = 2_000
"""Memory counts from here on: first uses of gRPC and its threads take some."""


def kills(folder: Path) -> dict[str, Any]:
    learner = LearnerProcess(folder)
    learner.start()
    moments = survive_kills(learner, folder / "spool", KILLS, seed=1)
    learner.close()
    return {
        "kills": KILLS,
        "acknowledged_steps_lost": sum(max(moment.acknowledged - moment.committed, 0) for moment in moments),
        "moments": [moment._asdict() for moment in moments],
    }


def packets(folder: Path) -> dict[str, Any]:
    learner = LearnerProcess(folder)
    learner.start()
    learner.wait_until_ready()
    stranger = MalformedPackets(str(learner.config.address), folder / "executed", seed=2)
    began = time.perf_counter()
    stranger.send(WARM_PACKETS)
    before = largest = learner.memory_bytes()
    while stranger.sent < PACKETS:
        stranger.send(1_000)
        largest = max(largest, learner.memory_bytes())
    seconds = time.perf_counter() - began
    after = learner.memory_bytes()
    stranger.close()
    rig = ActorRig(learner.config, folder / "spool", actor="honest")
    session = rig.join()
    steps = steps_of(session, [5, 6], actor="honest")
    rig.put(steps)
    rig.finish()
    rig.close()
    learner.close()
    assert_same(stored_steps(learner.replay)["honest", session], steps)
    return {
        "packets": stranger.sent,
        "refused": stranger.refused,
        "seconds": seconds,
        "memory_megabytes": before / 1e6,
        "memory_growth_megabytes": (after - before) / 1e6,
        "largest_memory_growth_megabytes": (largest - before) / 1e6,
        "pickles_executed": int((folder / "executed").exists()),
    }


def main() -> None:
    parser = make_parser(__doc__, "--output")
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": platform.machine()}
    for name, measure in (("kills", kills), ("packets", packets)):
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(Path(folder))
        print(name, results[name], flush=True)
    write_json(options.output, results)
    assert results["packets"]["memory_growth_megabytes"] < 50 and not results["packets"]["pickles_executed"]


if __name__ == "__main__":
    main()
