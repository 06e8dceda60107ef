"""Environment steps a second against the number of actors that Ray places on this machine, and what a learner takes in.

python benchmarks/bench_ray.py [task=pick_cube KEY=VALUE ...] [--seconds 20] [--json FILE]

Simulators act with an untrained policy, and a learner that does nothing else stores their steps: what counts is on its
disk. Actors are 1, 2, 4 ... up to the processors less one, which is the learner's; ``runtime.environments`` gives each
more simulators. The last line is the learner's limit: steps of states that come over the wire as fast as it takes them
(as in bench_transport.py).
"""

import argparse
import dataclasses
import os
import sys
import tempfile
import time
from pathlib import Path

import ray
from bench_transport import STATE, ingest
from omegaconf import DictConfig, open_dict
from table_runs import composed, write_json

from robo_rl.app import build_agent, build_backend
from robo_rl.core import section
from robo_rl.replay import Intake
from robo_rl.training.ray_actors import RayActors
from robo_rl.training.with_ray import connect
from robo_rl.transport import LearnerServer

INGEST_STEPS = 100_000
START_SECONDS = 300.0


def counts(processors: int) -> list[int]:
    """Return 1, 2, 4 ... and at last one less than there are processors."""
    most = max(processors - 1, 1)
    return sorted({most, *(2**power for power in range(most.bit_length()))})


def saved_config(overrides: list[str]) -> DictConfig:
    """Return the configuration of ``robo-rl train runtime=ray`` as a run would save it."""
    config = composed("train", ["runtime=ray", "run.dir=none", *overrides], return_hydra_config=True)
    with open_dict(config):
        choices = config.pop("hydra").runtime.choices
        config.choices = {group: choice for group, choice in choices.items() if group in config}
    return config


def throughput(config: DictConfig, folder: Path, seconds: float) -> list[dict[str, float]]:
    settings = section(config, "runtime")
    connect(settings)
    backend = build_backend(config)
    transport = dataclasses.replace(settings.transport, address=f"unix:{folder}/learner")
    intake = Intake(folder / "replay", backend.spec)
    server = LearnerServer(transport, "benchmark", backend.spec, intake, lambda facts: [])
    server.publish(0, build_agent(config.agent, backend.spec, config.seed).policy_state())
    server.guide(room=sys.maxsize, stop=False, env_steps=config.agent.random_steps)
    actors = RayActors(config, folder, transport)
    rows = []

    def stored_after(wait: float) -> int:
        end = time.monotonic() + wait
        while time.monotonic() < end:
            intake.take()
            time.sleep(0.01)
        intake.flush(START_SECONDS)
        return intake.totals().stored

    try:
        for count in counts(len(os.sched_getaffinity(0))):
            actors.resize(count)
            deadline = time.monotonic() + START_SECONDS
            while sum(actor.produced > 0 for actor in server.actors().values()) < count * settings.environments:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{count} actors did not come within {START_SECONDS:g} s")
                stored_after(0.5)
                actors.watch()
            stored, began = stored_after(1.0), time.monotonic()
            rate = (stored_after(seconds) - stored) / (time.monotonic() - began)
            rows.append({"actors": count, "environments": settings.environments, "steps_per_second": rate})
            print(f"{count:3} actors of {settings.environments}: {rate:10,.0f} steps/s", flush=True)
    finally:
        actors.stop()
        server.close()
        intake.close()
        backend.close()
        ray.shutdown()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("overrides", nargs="*", help="of robo-rl train runtime=ray")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured for each number of actors")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-ray-") as folder:
        rows = throughput(saved_config(arguments.overrides), Path(folder), arguments.seconds)
    with tempfile.TemporaryDirectory(prefix="bench-ray-") as folder:
        limit = ingest(Path(folder), STATE, INGEST_STEPS)["steps_per_second"]
    print(f"the learner takes in at most {limit:,.0f} steps/s")
    figures = {"cores": os.cpu_count(), "load": load, "actors": rows, "ingest_steps_per_second": limit}
    write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
