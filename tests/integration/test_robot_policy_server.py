"""A policy server drives the virtual robot over real DDS, fails, and recovers."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.drivers.ros2 import open_node
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import Forked, finish
from ..rigs.policy_server import foreign_server, straight
from ..rigs.robot_rig import PATIENCE, largest, virtual_robot
from ..rigs.ros2_domain import free_domain

FAULTS: list[dict[str, Any] | str | bytes] = [
    "out of memory",
    b"\xc1",
    {"actions": np.zeros((2, 4))},
    {"actions": np.full((2, 3), np.nan)},
]
"""An error, bytes that are no message, a wrong shape, and actions that are not finite."""
BRAKING_SECONDS, OUTAGE_SECONDS = 1.5, 4.0
"""Time in which the arm comes to rest after the last answer, and duration of an outage."""
AGENT = ["agent=residual", "agent.hidden=[32]", "agent.batch_size=32", "agent.update_to_data=1"]
AGENT += ["agent.ensemble_size=3", "agent.learning_starts=10", "agent.actor_delay=10"]
SMALL = ["task=reach", "robot=virtual", "demonstrations.episodes=2", "run.env_steps=60", "run.evaluation_interval=0"]
SMALL += ["run.final_evaluation_episodes=1", "run.video_episodes=0", "runtime.threads=1", "robot.start_timeout=60"]


class Speeds:
    """The largest speed of a joint with the time of each message, from a topic."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []

    def add(self, message: Any) -> None:
        """Keep the speeds of a message of joint states."""
        self.rows.append((time.monotonic(), largest(message.velocity)))

    def between(self, start: float, end: float) -> list[float]:
        """Return the speeds [rad/s] that were received in a time [s]."""
        return [speed for when, speed in self.rows if start <= when <= end]


def test_a_server_that_fails_holds_the_robot_until_it_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, requests, failures = tmp_path / "run", [0], list(FAULTS)
    outage: list[float] = []
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
            if not failures and requests[0] % 3 == 0 and not outage:
                outage.append(time.monotonic())
            if outage and time.monotonic() < outage[0] + OUTAGE_SECONDS:
                return "out of memory"
        return straight(observation)

    with foreign_server(answer) as address, free_domain() as environment, virtual_robot(environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        speeds = Speeds()
        server = [f"base.server.address={address}", f"run.dir={run}"]
        with open_node("observer") as node:
            node.create_subscription("sensor_msgs/msg/JointState", "joint_states", speeds.add)
            output = finish(Forked("train", *SMALL, *PATIENCE, *AGENT, *server, environment=environment), 0)
    assert not failures and outage, "every fault occurred"
    assert max(speeds.between(outage[0] - 5, outage[0])) > 0.02, "in motion before the outage"
    at_rest = speeds.between(outage[0] + BRAKING_SECONDS, outage[0] + OUTAGE_SECONDS)
    assert len(at_rest) > 20 and max(at_rest) < 0.01, "the arm stands still until the server answers again"
    assert json.loads((run / "summary.json").read_text())["status"] == "completed"
    log = (run / "actors" / "actor_0" / "output.log").read_text()
    assert log.count("The robot holds still; asking again for 30 s") == len(FAULTS) + 1
    assert log.count(f"the policy of the server {address} answers again after ") == len(FAULTS) + 1
    assert "answers again" in output, "the learner's terminal repeats it"
    with EpisodeStore.open(run / "replay" / "episodes") as store:
        assert sum(len(list(store.episode(number))) for number in range(len(store))) >= 60
