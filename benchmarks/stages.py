"""A task of three stages: with the state of its machine and counterfactual rows, with the state alone, and without it.

The end effector passes a gate on its left, then one on its right, then reaches a goal beyond the left gate, where it
must not be before (examples/stages/gates.yaml). Evaluations contain the share of episodes that reached each state.

    python benchmarks/stages.py
    python benchmarks/stages.py --settings counterfactual machine --seeds 0 1 2 --overrides runtime.threads=1
"""

from settings_table import SettingsTable
from table_runs import ROOT

TASK = [
    "task=reach",
    f"task.machine={ROOT / 'examples' / 'stages' / 'gates.yaml'}",
    "task.max_episode_steps=50",
    "task.observation.object=false",
    "reward=machine",
    "demonstrations.episodes=0",
    "agent=rlpd_without_demonstrations",
    "agent.n_step=3",
]
"""The task and the agent of all runs."""
TABLE = SettingsTable(
    name="stages",
    task="left gate, right gate, goal",
    settings={
        "counterfactual": lambda *_: [*TASK, "run.counterfactual=0.5"],
        "machine": lambda *_: TASK,
        "unobserved": lambda *_: [*TASK, "agent.observation_keys=[state]"],
    },
    common=[
        "run.evaluation_interval=500",
        "run.evaluation_episodes=50",
        "run.stop_at_success_rate=0.98",
        "run.video_episodes=0",
    ],
    env_steps=15_000,
    logged="reached/",
)
"""With counterfactual rows, without them, and with a policy that does not observe the state of the machine."""

if __name__ == "__main__":
    TABLE.main(__doc__)
