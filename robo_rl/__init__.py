"""robo-rl: reinforcement learning on real robots, in the time of a coffee break."""

import os

__version__ = "0.1.0"

# Threads of OpenMP, which PyTorch computes with, look for more work for 5 ms after each operation, without a pause for
# others: the threads of our update, an actor, a control loop. With this they do so for 0.4 ms, which is longer than
# PyTorch takes from one operation to the next. It is read when PyTorch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
