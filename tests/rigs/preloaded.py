"""Modules that most commands of ``robo-rl`` import, loaded once in the process that forks those of tests."""

import importlib

from robo_rl.app import register_all_configs
from robo_rl.command_line.usage import composed

for module in (
    "matplotlib.pyplot",
    "matplotlib.backends.backend_svg",
    "tensorboard.summary",
    "torch._dynamo",  # by the updates of PyTorch, in two seconds
    "robo_rl.command_line.application",
    "robo_rl.commands.train",
    "robo_rl.commands.actor",
    "robo_rl.commands.robot",
    "robo_rl.commands.eval",
    "robo_rl.evaluation.report",
    "robo_rl.agents.sac.agent",
    "robo_rl.safety.compose",
    "robo_rl.sim.tasks.reach",
):
    importlib.import_module(module)
register_all_configs()
composed("train", ["task=reach", "agent.hidden=[8]", "run.dir='${oc.env:HOME}'"])  # the parsers remember what they saw
