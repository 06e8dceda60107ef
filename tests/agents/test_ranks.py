"""An update of two processes is that of one; who is gone or differs is noticed, and nothing is half updated."""

import dataclasses

import pytest
import torch
import torch.distributed as dist
from omegaconf import OmegaConf

from robo_rl.agents.sac import ranks
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.ranks import RankedUpdate, end_ranks
from robo_rl.agents.sac.update import TorchUpdate
from robo_rl.core import ConfigError, RankError
from robo_rl.training import ranks as commands_ranks
from robo_rl.training.ranks import check_ranks

from ..rigs import second_rank
from ..rigs.command_line import Forked
from .test_update import SMALL, VARIANTS, experience, initial


@pytest.fixture
def second(tmp_path, monkeypatch):
    """Start the second rank with a behaviour, and join it."""
    monkeypatch.setattr(ranks, "CHECK_INTERVAL", 2)
    processes = []

    def start(*behaviour):
        processes.append(Forked(str(tmp_path / "store"), *behaviour, program=second_rank.main))
        dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=2)
        return processes[0]

    yield start
    dist.destroy_process_group()
    for process in processes:
        process.kill()
        process.communicate()


class Follower:
    def follow(self):
        pass


def state(config=SMALL):
    parameters = initial(config, torch.float64)
    return train_state(parameters)


@pytest.mark.parametrize("variant", ["rlpd", "silu"])
def test_two_ranks_do_the_update_of_one(second, variant):
    process = second("follow", variant)
    config = dataclasses.replace(SMALL, **VARIANTS[variant])
    ours, alone = state(config), state(config)
    update, reference = RankedUpdate(config, ours), TorchUpdate(config, alone)
    for number in range(3):
        data = experience(config, torch.float64, seed=number)
        torch.testing.assert_close(update(*data, number), reference(*data, number), rtol=1e-10, atol=1e-12)
    for found, expected in zip(ours, alone, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-12)
    end_ranks()
    assert process.wait(60) == 0, process.stdout.read()


def test_what_rank_0_has_loaded_the_others_take_over(second):
    process = second("follow")
    ours = state()
    update = RankedUpdate(SMALL, ours)
    update(*experience(SMALL, torch.float64), 0)
    ours[0]["actor/output/bias"] += 1.0
    update.is_spread = False
    update(*experience(SMALL, torch.float64), 1)  # after which they compare what they hold
    end_ranks()
    assert process.wait(60) == 0, process.stdout.read()


def test_ranks_that_differ_are_noticed(second):
    process = second("differ")
    ours = state()
    update = RankedUpdate(SMALL, ours)
    update(*experience(SMALL, torch.float64), 0)
    before = {name: tensor.clone() for name, tensor in ours[0].items()}
    with pytest.raises(RankError, match="do not hold the same parameters after update 2; continue from the newest"):
        update(*experience(SMALL, torch.float64), 1)
    torch.testing.assert_close(ours[0], before, rtol=0, atol=0)
    assert process.wait(60) == 1
    assert "do not hold the same parameters" in process.stdout.read()


def test_a_rank_that_dies_leaves_what_was_before_the_update(second):
    process = second("die")
    ours = state()
    update = RankedUpdate(SMALL, ours)
    update(*experience(SMALL, torch.float64), 0)
    before = [{name: tensor.clone() for name, tensor in part.items()} for part in ours]
    with pytest.raises(RankError, match="another process of the learner is gone"):
        update(*experience(SMALL, torch.float64), 1)
    torch.testing.assert_close(list(ours), before, rtol=0, atol=0)
    assert process.wait(60) == 9
    end_ranks()  # says nothing of the ranks that are gone


def test_what_cannot_be_shared_is_refused(monkeypatch, tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        monkeypatch.setattr(dist, "get_world_size", lambda: 4)
        with pytest.raises(ConfigError, match=r"agent\.batch_size must be a multiple of the 4 ranks, got 6"):
            RankedUpdate(SMALL, state())
        for implementation in ("native", "compile"):
            with pytest.raises(ConfigError, match=f"agent.implementation={implementation} computes in one process"):
                RankedUpdate(dataclasses.replace(SMALL, implementation=implementation), state())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(("reset", "agent"), [({}, object()), ({"agent": {}}, Follower())])
def test_agents_of_one_process_are_refused(reset, agent, monkeypatch):
    config = OmegaConf.create({"reset": reset})
    check_ranks(config, agent)
    monkeypatch.setattr(commands_ranks, "several_ranks", lambda: True)
    with pytest.raises(ConfigError, match="runs in a single process: start this run without torchrun"):
        check_ranks(config, agent)
