"""Networks that a configuration makes too large: refused before they take memory, by what is loaded into them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from robo_rl import cli
from robo_rl.agents.bc import make_bc
from robo_rl.agents.cpl import make_cpl
from robo_rl.agents.drq import EncoderConfig, make_drq
from robo_rl.agents.dsrl import make_dsrl
from robo_rl.agents.fql import make_fql
from robo_rl.agents.iql import make_iql
from robo_rl.agents.qc import make_qc
from robo_rl.agents.sac import make_sac
from robo_rl.agents.xqc import make_xqc
from robo_rl.app import build_agent, networks_of, networks_of_run
from robo_rl.commands import train
from robo_rl.core import (
    ArraySpec,
    CheckpointError,
    ConfigError,
    claim_parameters,
    is_too_large,
    network_size,
    networks_within,
    networks_within_memory,
)
from robo_rl.safety.feasibility import FeasibilityModel

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((5,)), "images/front": ArraySpec((32, 32, 3), "uint8", 0, 255)}, 3)
AGENTS = (make_bc, make_cpl, make_drq, make_dsrl, make_fql, make_iql, make_qc, make_sac, make_xqc)
LARGE: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    *((make, {"hidden": (6000, 6000)}) for make in AGENTS),
    *((make, {"hidden": (2_000_000_000,)}) for make in AGENTS),
    *((make, {"action_chunk": 10**12}) for make in (make_bc, make_sac)),
    (make_sac, {"ensemble_size": 1_000_000}),
    (make_xqc, {"critic_hidden": (6000, 6000)}),
    (make_xqc, {"network": "simbav2", "critic_hidden": (3000, 3000)}),
    (make_sac, {"ensemble_size": 10**20, "hidden": (1,)}),
    (make_drq, {"encoder": EncoderConfig(channels=(4000, 4000))}),
    (make_drq, {"encoder": EncoderConfig(latent=10**9)}),
    (make_drq, {"encoder": EncoderConfig(head="spatial_embeddings", embeddings=10**9)}),
    (lambda **_: FeasibilityModel(5, 3, (65536, 65536)), {}),
]


@pytest.mark.parametrize(("make", "fields"), LARGE)
def test_networks_larger_than_what_is_loaded_are_refused_at_once(
    make: Callable[..., Any], fields: dict[str, Any]
) -> None:
    begun = time.monotonic()
    with (
        networks_within(1000, "step_1", CheckpointError),
        pytest.raises(CheckpointError, match=r"the networks are too large: .* step_1 holds 1,000, so"),
    ):
        make(spec=SPEC, seed=0, **fields)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("make", AGENTS)
def test_an_agent_fits_into_what_it_saved(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stored = sum(array.size for array in make(spec=SPEC, seed=0).state().values())
    monkeypatch.setattr(network_size, "SMALL", 0)
    with networks_within(stored, "step_1", CheckpointError):
        make(spec=SPEC, seed=0)


def test_a_limit_is_one_for_all_networks_of_a_block() -> None:
    with networks_within(0, "step_1", CheckpointError), networks_within_memory():
        for _ in range(network_size.SMALL // (900 + network_size.PER_LAYER)):
            claim_parameters(900, "small")
        with pytest.raises(CheckpointError):
            claim_parameters(900, "small")
    claim_parameters(900, "outside")
    with networks_within(0, "step_1", CheckpointError), pytest.raises(CheckpointError):
        claim_parameters(0, "many", 1_000_000)


def test_networks_that_this_machine_cannot_train_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_size, "memory_bytes", lambda: 10**6)
    node = OmegaConf.create({"_target_": "robo_rl.agents.sac.make_sac", "hidden": [256, 256]})
    with pytest.raises(ConfigError, match=r"they have at least 67,016 parameters, expected at most 62,500\."):
        build_agent(node, SPEC, 0)


def write_parts(folder: Path, **sizes: int) -> None:
    folder.mkdir(parents=True)
    for part, size in sizes.items():
        (folder / f"{part}.safetensors").write_bytes(bytes(size))


def test_the_files_of_a_run_bound_its_networks(tmp_path: Path) -> None:
    small = network_size.SMALL + 1 - network_size.PER_LAYER
    steps = tmp_path / "checkpoints"
    write_parts(steps / "step_000000001", policy=4000, replay=10**6)
    write_parts(steps / "step_000000002", policy=4000, agent=40_000, reward=8000, replay=10**6)
    for context, most in (
        (networks_of(steps / "step_000000001", "policy"), 64_000),
        (networks_of(steps / "step_000000001", "reward"), 0),
        (networks_of(steps / "step_000000002", "policy"), 10_000),
        (networks_of(steps / "step_000000002", "agent"), 10_000),
        (networks_of(steps / "step_000000002", "reward"), 2000),
        (networks_of_run(tmp_path), 13_000),
    ):
        with context:
            claim_parameters(small + most - 1, "fits")
            with pytest.raises(CheckpointError):
                claim_parameters(0, "one more")
    for run in (None, tmp_path / "none"):
        with networks_of_run(run):
            claim_parameters(10**7, "fits")


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((10**9, 10**9)),
        lambda: np.zeros((10**20,)),
        lambda: np.zeros((2**40, 2**40)),
        lambda: torch.empty(10**9, 10**9),
        lambda: torch.empty(2**40, 2**40),
        lambda: torch.randn(10**15),
    ],
)
def test_a_size_for_which_there_is_no_memory_is_known(make: Callable[[], Any]) -> None:
    with pytest.raises((MemoryError, RuntimeError, ValueError, OverflowError)) as caught:
        make()
    assert is_too_large(caught.value)


def test_a_size_for_which_there_is_no_memory_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(train, "run", lambda config: torch.empty(2**40, 2**40))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["train"])
    told = capsys.readouterr().err
    assert end.value.code == 2 and told.count("\n") == 1 and "lower the sizes that are given" in told


def test_other_errors_are_no_lack_of_memory() -> None:
    assert not any(map(is_too_large, (RuntimeError("no"), ValueError("no"), KeyError("out of memory"))))
