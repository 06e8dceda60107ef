"""The version of robo-rl."""

__version__ = "0.1.0"
