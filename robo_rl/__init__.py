"""robo-rl: reinforcement learning on real robots, in the time of a coffee break."""

import os

from .graphics import choose_graphics

__version__ = "0.1.0"

# Threads of OpenMP, which PyTorch computes with, spin for 7 ms after each operation, and keep their cores from others:
# the threads of our update, an actor, a control loop. With this it is half a millisecond, so that operations that
# follow each other closely still find them awake. It is read when PyTorch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

choose_graphics()
