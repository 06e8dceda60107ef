"""A peg with half the clearance, learned from a run with the whole one and from scratch.

Each seed has a run of peg_insert with 1 mm of clearance (``base``), one with 0.5 mm that starts from it (``started``)
and one with 0.5 mm from scratch (``scratch``), the last two with the same demonstrations.

    python benchmarks/warm_start.py
    python benchmarks/warm_start.py --settings base started --seeds 0 1 2 --overrides runtime.threads=1
"""

from pathlib import Path

from settings_table import SettingsTable

TASK = "task=peg_insert"
HALF = "task.clearance=0.0005"


def started(runs: Path, seed: int) -> list[str]:
    """Return the options of a run that starts from the run of ``base`` with the same seed."""
    return [TASK, HALF, f"start.run={runs / f'base_{seed}'}", "start.critics=true", "agent.actor_delay=200"]


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
