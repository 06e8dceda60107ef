"""Training under torchrun: rank 0 trains, and the other processes compute their share of its updates."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from omegaconf import DictConfig

from ..agents.sac.ranks import TIMEOUT, end_ranks, several_ranks
from ..app import build_agent, build_backend, networks_of_run, set_threads
from ..core import Agent, ConfigError, RankedLearner, RankError


@contextlib.contextmanager
def joined_ranks() -> Iterator[int]:
    """Join the processes that torchrun started, within the block; yield the rank of this process, 0 if it is alone.

    Raises:
        RankError: if the processes cannot connect to each other.
    """
    if not (dist.is_available() and dist.is_torchelastic_launched()):
        yield 0
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        dist.init_process_group(backend, timeout=TIMEOUT)
    except RuntimeError as error:
        raise RankError(f"the processes that torchrun started cannot connect to each other: {error}") from error
    leads = dist.get_rank() == 0 and several_ranks()
    try:
        yield dist.get_rank()
    except RankError:
        leads = False  # the other ranks are gone, or in another state
        raise
    finally:
        if leads:
            end_ranks()
        dist.destroy_process_group()


def check_ranks(config: DictConfig, agent: Agent) -> None:
    """Check that all processes, if there are several, can compute the updates of ``agent``.

    Raises:
        ConfigError: if they cannot.
    """
    if not several_ranks():
        return
    if "agent" in config.reset:
        raise ConfigError("the agent of reset=learned runs in a single process: start this run without torchrun")
    if not isinstance(agent, RankedLearner):
        raise ConfigError("this agent runs in a single process: start this run without torchrun, or choose agent=rlpd")


def follow(config: DictConfig) -> int:
    """Compute this rank's share of the updates of rank 0 until rank 0 ends, without a robot or a run folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # ignored, because rank 0 saves and ends the run
        signal.signal(number, signal.SIG_IGN)
    set_threads(config)
    backend = build_backend(config, simulated=True)
    try:
        spec = backend.spec
    finally:
        backend.close()
    with networks_of_run(None if config.resume is None else Path(str(config.resume))):
        agent = build_agent(config.agent, spec, config.seed)
    check_ranks(config, agent)
    assert isinstance(agent, RankedLearner)
    agent.follow()
    return 0
