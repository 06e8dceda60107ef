"""A peg with half the clearance, learned from a run with the whole one and from scratch.

A run of peg_insert with 1 mm of clearance and seed 0 (``base``) is the start of runs with 0.5 mm (``started``), beside
runs with 0.5 mm from scratch with the same demonstrations (``scratch``).

    python benchmarks/warm_start.py --settings base --seeds 0 && python benchmarks/warm_start.py
"""

from pathlib import Path

from settings_table import SettingsTable

TASK = "task=peg_insert"
HALF = "task.clearance=0.0005"


def started(runs: Path, seed: int) -> list[str]:
    """Return the options of a run that starts from the run of ``base``."""
    start = [f"start.run={runs / 'base_0'}", "start.critics=true", "start.replay_ratio=0.25"]
    return [TASK, HALF, *start, "agent.learning_starts=1000", "agent.actor_delay=200"]


TABLE = SettingsTable(
    name="warm_start",
    task="peg_insert",
    settings={"base": lambda *_: [TASK], "started": started, "scratch": lambda *_: [TASK, HALF]},
    common=[
        "run.evaluation_interval=500",
        "run.evaluation_episodes=100",
        "run.stop_at_success_rate=0.97",
        "run.video_episodes=0",
    ],
    env_steps=15_000,
)

if __name__ == "__main__":
    TABLE.main(__doc__)
