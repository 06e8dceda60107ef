"""Policies trained without the task's reward, each from one reward module; success is judged by physics alone.

Takes an hour and a half of one core; it may be stopped and started again: finished runs are kept, unfinished ones resumed.

    python tests/benchmarks/reward_learning.py
    python tests/benchmarks/reward_learning.py --rows reach_preferences open_door_transport --seeds 1

Nothing of the task reaches the learner but through the module: the reward is the module's term alone, and an episode
ends at its time limit, never at a success. Evaluations count an episode whose last state is a success. Beside each row
stands its control: the same run with the module's weight set to 0.

Writes docs/results/reward_learning.json (every run: its summary and evaluations) and the table in reward_learning.md.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from learning_table import status

from robo_rl.evaluation.statistics import bootstrap_interval, interquartile_mean, steps_to_threshold
from robo_rl.replay import EpisodeStore

ROOT = Path(__file__).resolve().parents[2]
NAME = "reward_learning"

ALONE = (
    "agent.demonstration_ratio=0",
    "agent.cloning_weight=0",
    "agent.final_cloning_weight=0",
    "agent.pretrain_steps=0",
    "agent.initial_log_std=0",
    "agent.initial_temperature=0.1",
    "agent.random_steps=300",
    "agent.learning_starts=300",
    "agent.update_to_data=4",
)
"""The agent learns from its own steps alone: it sees no action of a demonstration."""

CAMERAS = (
    "task.observation.cameras=[front,view]",
    "task.observation.width=64",
    "task.observation.height=64",
    "agent.observation_keys=[state,object]",
)
"""Pictures are for the reward."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        task: name of the task.
        reward: what the table calls the reward.
        sees: what the learner sees beside its own steps.
        steps: environment steps.
        overrides: of ``robo-rl train``.
        term: of the module; the control has weight 0 for it.
        control: name of the row whose control this one shares, which differs in nothing that matters without a reward.
        data: whether it learns from a data set alone; see :func:`collect`.
    """

    task: str
    reward: str
    sees: str
    steps: int
    overrides: tuple[str, ...]
    term: str
    control: str | None = None
    data: bool = False


PREFERENCES = ("reward=preferences", "reward.modules.preferences.noise=0.2", "demonstrations.episodes=0", *ALONE)
FIVE = ("demonstrations.episodes=5", *ALONE)
ROWS = {
    "reach_preferences": Row(
        "reach", "preferences of a script, 20 % wrong", "400 answers", 4_000, PREFERENCES, "preferences"
    ),
    "open_door_transport": Row(
        "open_door", "optimal transport", "states of 5 demonstrations", 6_000, ("reward=optimal_transport", *FIVE), "transport"
    ),
    "open_door_transport_scheduled": Row(
        "open_door",
        "optimal transport, scheduled discount",
        "states of 5 demonstrations",
        6_000,
        ("reward=optimal_transport", "reward.modules.transport.scheduled_discount=true", *FIVE),
        "transport",
        control="open_door_transport",
    ),
    "open_door_perceptual": Row(
        "open_door",
        "perceptual",
        "states of 5 demonstrations",
        6_000,
        ("reward=perceptual", *FIVE),
        "perceptual",
        control="open_door_transport",
    ),
}
