"""robo-rl train under torchrun: a rank that dies ends the run with a checkpoint, and one process goes on from it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from robo_rl.learner import CheckpointFolder

from ..rigs.command_line import finish, robo_rl

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "robo_rl.cli")
QUICK = [
    "task=reach",
    "demonstrations.episodes=0",
    "agent.hidden=[16]",
    "agent.ensemble_size=2",
    "agent.update_to_data=1",
    "agent.batch_size=16",
    "agent.learning_starts=10",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def torchrun(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*TORCHRUN, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rank_process(launcher: subprocess.Popen[str], rank: int) -> int:
    """Return the process of a rank that torchrun has started."""
    for child in Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split():
        if f"RANK={rank}" in Path(f"/proc/{child}/environ").read_text().split("\0"):
            return int(child)
    raise AssertionError(f"there is no rank {rank}")


def test_a_rank_that_dies_ends_the_run_and_one_process_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    launcher = torchrun("train", *QUICK, "run.env_steps=100000", f"run.dir={folder}")
    deadline = time.monotonic() + 240
    while not (folder / "metrics.jsonl").exists() or '"train"' not in (folder / "metrics.jsonl").read_text():
        assert launcher.poll() is None and time.monotonic() < deadline, "no update was ever done"
        time.sleep(0.1)
    os.kill(rank_process(launcher, 1), signal.SIGKILL)
    output = finish(launcher, 1)
    assert f"Resume with: robo-rl train resume={folder}" in output
    saved = CheckpointFolder(folder / "checkpoints").load_newest()
    assert saved.step >= 10 and saved.parts["agent"]["updates"] > 0

    robo_rl("train", f"resume={folder}", f"run.env_steps={saved.step + 20}")
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["status"] == "completed" and summary["env_steps"] == saved.step + 20
    assert "ranks" not in summary["learner"]
