"""Test of the task ``push_block``: its expert solves it."""

import push_block

from robo_rl.sim import make_backend

push_block.register()


def test_the_expert_solves_the_task() -> None:
    backend = make_backend("push_block")
    step, expert = backend.reset(seed=0), backend.expert(seed=0)
    while not step.ended:
        step = backend.step(expert.act(step.observation))
    assert step.success
