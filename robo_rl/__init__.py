"""robo-rl: reinforcement learning on real robots, in the time of a coffee break."""

__version__ = "0.1.0"
