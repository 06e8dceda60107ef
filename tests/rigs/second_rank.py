"""Rank 1 of 2 that compute updates together, with the arguments STORE BEHAVIOUR [VARIANT].

BEHAVIOUR: follow; differ: change a parameter by one bit in the second update; die: in the second update.
VARIANT: of the configuration, one of those that the update is tested with.
"""

import dataclasses
import os
import sys

import torch
import torch.distributed as dist

from robo_rl.agents.sac import ranks
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.ranks import RankedUpdate

from ..agents.test_update import SMALL, VARIANTS, initial


def main():
    store, behaviour, *variant = sys.argv[1:]
    config = dataclasses.replace(SMALL, **VARIANTS[variant[0]]) if variant else SMALL
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=1, world_size=2)
    parameters = initial(config, torch.float64, seed=7)  # others than rank 0 has: its parameters count
    update = RankedUpdate(config, train_state(parameters))
    compute = update._compute

    def misbehave(batch, noise, updates):
        if updates == 1 and behaviour == "die":
            os._exit(9)
        if updates == 1 and behaviour == "differ":
            bits = parameters["actor/output/bias"].view(torch.int64)
            bits[0] ^= 1
        return compute(batch, noise, updates)

    update._compute = misbehave
    ranks.CHECK_INTERVAL = 2
    update.follow()
    dist.destroy_process_group()
    os._exit(0)  # once in hundreds of times a thread of PyTorch aborts while the interpreter ends: not what is tested
