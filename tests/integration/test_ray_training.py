"""With real processes of Ray: simulators join, are killed, come back and leave, every step is counted; a sweep."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from robo_rl.evaluation.runs import load_run
from robo_rl.transport import TransportConfig, send_command

from .test_async_training import AGENT, RUN, check_conservation, records, stored, summary_of, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes through /proc")

RESOURCES = ["runtime.learner_resources={CPU:0.2}", "runtime.actor_resources={CPU:0.2}"]
SECONDS = 1500.0
"""Most time to wait for anything: two free cores need half a minute for Ray and a learner, a busy machine much more."""


def simulators(ancestor: int) -> list[int]:
    """Return the processes of simulators below ``ancestor``."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if (folder / "cmdline").read_bytes().startswith(b"ray::Simulators"):
                found.append(int(folder.name))
        except OSError:
            continue

    def is_below(process: int) -> bool:
        while process in parents and process != ancestor:
            process = parents[process]
        return process == ancestor

    return list(filter(is_below, found))


def acted(folder: Path, session: int) -> set[str]:
    """Return the actors of which steps of their ``session`` are stored."""
    file = folder / "replay" / "episodes" / "episodes.jsonl"
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    return {record["actor"] for record in map(json.loads, lines) if record["session"] == session}


def test_simulators_join_are_killed_come_back_and_leave(tmp_path: Path) -> None:
    folder, output, wire = tmp_path / "run", tmp_path / "output", TransportConfig(f"unix:{tmp_path}/learner")
    words = ["runtime=ray", "runtime.environments=2", f"runtime.transport.address={wire.address}", *RESOURCES]
    words = [*AGENT, *RUN, *words, f"run.dir={folder}", "run.env_steps=100000", "run.evaluation_interval=0"]
    with output.open("w") as stream:
        command = [sys.executable, "-m", "robo_rl.cli", "train", *words]
        # Ray's workers give way to all other processes, so also to other tests, unless told otherwise.
        settings = os.environ | {"RAY_worker_niceness": "0"}
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=settings)

    def wait_for(condition: Callable[[], bool]) -> None:
        wait_until(lambda: process.poll() is not None or condition(), SECONDS)
        assert process.poll() is None, output.read_text()

    try:
        wait_for(lambda: (tmp_path / "learner").exists())
        assert "actors 2: accepted" in send_command(wire, "actors 2")
        names = {number: {f"actor_{number}_0", f"actor_{number}_1"} for number in (0, 1)}
        wait_for(lambda: names[0] | names[1] <= acted(folder, session=1))
        killed, _ = simulators(process.pid)
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: any(pair <= acted(folder, session=2) for pair in names.values()))
        send_command(wire, "actors 1")
        wait_for(lambda: len(simulators(process.pid)) == 1)
        send_command(wire, "stop")
        assert process.wait(SECONDS) == 0, output.read_text()
    finally:
        process.kill()
    assert summary_of(folder)["status"] == "stopped"
    assert summary_of(folder)["actors"]["restarts"] == 1
    check_conservation(folder)
    assert max(step.policy_version for step in stored(folder)) > 0
    assert max(record["actors"] for record in records(folder, "runtime")) == 4


def test_a_sweep_runs_on_ray_and_a_run_that_fails_stops_no_other(tmp_path: Path) -> None:
    sweep = ["-m", "hydra/launcher=ray", "hydra.launcher.resources.CPU=1", f"hydra.sweep.dir={tmp_path}"]
    words = [
        *AGENT,
        *RUN,
        "demonstrations.episodes=0",
        "run.env_steps=20",
        "run.evaluation_interval=0",
        "agent.gamma=7,0.95",
        *sweep,
    ]
    command = [sys.executable, "-m", "robo_rl.cli", "train", *words]
    # As fast as other processes, and the table on wide lines.
    settings = os.environ | {"RAY_worker_niceness": "0", "COLUMNS": "400"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=settings)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "robo-rl: 1 of 2 runs failed; the table gives the reasons"
    failed, trained = (line for line in done.stdout.splitlines() if line.startswith("\u2502") and "_sweep/" in line)
    assert "agent.gamma=7" in failed and "agent.gamma must be in [0, 1], got 7.0" in failed
    assert "agent.gamma=0.95" in trained and "completed" in trained
    (folder,) = tmp_path.glob("*_sweep")
    assert summary_of(folder / "1")["env_steps"] == 20
    assert load_run(folder / "1").config["agent"]["gamma"] == 0.95


def test_ctrl_c_interrupts_the_runs_of_a_sweep_as_it_does_one_run(tmp_path: Path) -> None:
    """Each writes a checkpoint where it is; one that waits for room does not begin."""
    room = f"hydra.launcher.resources.CPU={os.cpu_count()}"  # for one run at a time
    sweep = ["-m", "hydra/launcher=ray", room, f"hydra.sweep.dir={tmp_path}"]
    words = [*AGENT, *RUN, "run.env_steps=100000", "run.evaluation_interval=0", "seed=0,1", *sweep]
    settings = os.environ | {"RAY_worker_niceness": "0", "COLUMNS": "400"}
    with (tmp_path / "output").open("w") as stream:
        command = [sys.executable, "-m", "robo_rl.cli", "train", *words]
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=settings)
    try:
        wait_until(lambda: process.poll() is not None or any(tmp_path.glob("*_sweep/0/checkpoints/step_*")), SECONDS)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130, (tmp_path / "output").read_text()
    finally:
        process.kill()
    (folder,) = tmp_path.glob("*_sweep")
    summary = summary_of(folder / "0")
    assert summary["status"] == "interrupted"
    assert (folder / "0" / "checkpoints" / f"step_{summary['env_steps']:09}").is_dir()
    assert not (folder / "1").exists()
    lines = (tmp_path / "output").read_text().splitlines()
    rows = [line for line in lines if line.startswith("\u2502") and "_sweep/" in line]
    assert len(rows) == 2 and all("interrupted" in row for row in rows)


PENDING = """
import os, signal, sys
from robo_rl.cli import main
from robo_rl.training import with_ray as ray_training

is_done = ray_training.is_done
ray_training._lacking = lambda asked: ""  # a cluster might grow: it does not refuse

def is_done_and_interrupt(*words):
    ray_training.is_done = is_done
    os.kill(os.getpid(), signal.SIGTERM)
    return is_done(*words)

ray_training.is_done = is_done_and_interrupt
main(sys.argv[1:])
"""


def test_a_run_whose_learner_waits_for_room_ends_at_the_first_signal(tmp_path: Path) -> None:
    words = [*AGENT, *RUN, "runtime=ray", "runtime.learner_resources={elsewhere:1}", f"run.dir={tmp_path / 'run'}"]
    command = [sys.executable, "-c", PENDING, "train", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 143, done.stderr
    assert "Ended before the learner began" in done.stdout and "'elsewhere': 1" in done.stdout
    assert not (tmp_path / "run" / "config.yaml").exists(), "the same command may be given again"
