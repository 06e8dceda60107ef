"""A policy server drives the virtual robot over real DDS, fails, and recovers."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.replay import EpisodeStore

from ..rigs.command_line import Forked, finish
from ..rigs.policy_server import foreign_server, straight
from ..rigs.robot_rig import PATIENCE, virtual_robot
from ..rigs.ros2_domain import free_domain

FAULTS: list[dict[str, Any] | str | bytes] = [
    "out of memory",
    b"\xc1",
    {"actions": np.zeros((2, 4))},
    {"actions": np.full((2, 3), np.nan)},
]
"""An error, bytes that are no message, a wrong shape, and actions that are not finite."""
AGENT = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=1"]
AGENT += ["agent.ensemble_size=3", "agent.learning_starts=10", "agent.actor_delay=10"]
SMALL = ["task=reach", "robot=virtual", "demonstrations.episodes=2", "run.env_steps=60", "run.evaluation_interval=0"]
SMALL += ["run.final_evaluation_episodes=1", "run.video_episodes=0", "runtime.threads=1", "robot.start_timeout=60"]


def test_a_server_that_fails_holds_the_robot_until_it_recovers(tmp_path: Path) -> None:
    run, requests, failures = tmp_path / "run", [0], list(FAULTS)
    of_learner: set[int] = set()

    def answer(observation: dict[str, Any]) -> dict[str, Any] | str | bytes:
        """Fail at every third request of the actor, which connects after the learner."""
        log = run / "actors" / "actor_0" / "output.log"
        if not log.exists() or "joined run" not in log.read_text():
            of_learner.add(threading.get_ident())
        elif threading.get_ident() not in of_learner:
            requests[0] += 1
            if requests[0] % 3 == 0 and failures:
                return failures.pop(0)
        return straight(observation)

    with foreign_server(answer) as address, free_domain() as environment, virtual_robot(environment):
        server = [f"base.server.address={address}", f"run.dir={run}"]
        output = finish(Forked("train", *SMALL, *PATIENCE, *AGENT, *server, environment=environment), 0)
    assert not failures, "every fault occurred"
    assert json.loads((run / "summary.json").read_text())["status"] == "completed"
    log = (run / "actors" / "actor_0" / "output.log").read_text()
    assert log.count("The robot holds still; asking again for 30 s") == len(FAULTS)
    assert log.count(f"the policy of the server {address} answers again after ") == len(FAULTS)
    assert "answers again" in output, "the learner's terminal repeats it"
    with EpisodeStore.open(run / "replay" / "episodes") as store:
        assert sum(len(list(store.episode(number))) for number in range(len(store))) >= 60
