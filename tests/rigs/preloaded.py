"""Modules that most commands of ``robo-rl`` import, loaded once in the process that forks those of tests."""

import matplotlib.pyplot  # noqa: F401
import tensorboard.summary  # noqa: F401

import robo_rl.command_line.application
import robo_rl.commands.train
import robo_rl.evaluation.report  # noqa: F401
from robo_rl.app import register_all_configs

register_all_configs()
