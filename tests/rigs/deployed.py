"""Small agents whose policies are written to files, with parameters as after a training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robo_rl.agents.bc import make_bc
from robo_rl.agents.drq import make_drq
from robo_rl.agents.dsrl import make_dsrl
from robo_rl.agents.flow import make_flow
from robo_rl.agents.fql import make_fql
from robo_rl.agents.iql import make_iql
from robo_rl.agents.qc import make_qc
from robo_rl.agents.sac import make_sac
from robo_rl.agents.xqc import make_xqc
from robo_rl.core import ArraySpec, EnvSpec
from robo_rl.deployment import PolicyDescription, Verification, write_policy

from .specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((6,)), "object": ArraySpec((3,)), "unused": ArraySpec((2,))}, 2)
IMAGES = toy_spec({"state": ArraySpec((4,)), "images/front": ArraySpec((32, 24, 3), "uint8")}, 2)
KEYS = ("object", "state")
SMALL = {"hidden": (32, 32), "observation_keys": KEYS}


def _make_steered(**fields: Any) -> Any:
    """Return an agent of ``agent=dsrl`` whose actor has learned."""
    agent = make_dsrl(**fields)
    agent._policy.steer()
    return agent


GAUSSIAN: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "sac": (make_sac, SMALL),
    "sac_chunk": (make_sac, {**SMALL, "action_chunk": 4, "activation": "gelu", "actor_layer_norm": True}),
    "sac_silu": (make_sac, {**SMALL, "activation": "silu"}),
    "sac_raw": (make_sac, {**SMALL, "normalise_observations": False}),
    "bc": (make_bc, {**SMALL, "activation": "tanh"}),
    "iql": (make_iql, SMALL),
    "dsrl": (_make_steered, {**SMALL, "action_chunk": 3}),
    "xqc": (make_xqc, {**SMALL, "network": "xqc"}),
    "crossq": (make_xqc, {**SMALL, "network": "crossq"}),
    "simbav2": (make_xqc, {**SMALL, "network": "simbav2"}),
}
"""Makers and options of agents with a deterministic decision, by name."""
SAMPLING: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "flow": (make_flow, {**SMALL, "action_chunk": 3}),
    "fql": (make_fql, SMALL),
    "qc": (make_qc, {**SMALL, "candidates": 5, "selection_starts": 0}),
    "qc_before_selection": (make_qc, {**SMALL, "candidates": 5, "selection_starts": 1}),
}
"""The same of agents that sample."""
VECTORS = GAUSSIAN | SAMPLING
OF_IMAGES = {"drq": (make_drq, {"hidden": (32,)})}


def make_agent(name: str, **options: Any) -> Any:
    """Return an agent whose parameters and normalisation are those of a trained one in size."""
    maker, fields = (VECTORS | OF_IMAGES)[name]
    agent = maker(spec=spec_of(name), seed=0, **(fields | options))
    policy, source = agent._policy, torch.Generator().manual_seed(1)
    with torch.no_grad():
        for key, tensor in policy.averaged.items():
            noise = torch.randn(tensor.shape, generator=source)
            tensor.add_(0.1 * (noise.abs() if key.endswith("variance") else noise))
    if policy.observations.normalise:
        rng, vector = np.random.default_rng(2), policy.observations
        vector.mean[:], vector.scale[:], vector.fitted[...] = rng.normal(size=vector.size), 0.3, True
    return agent


def spec_of(name: str) -> EnvSpec:
    return IMAGES if name in OF_IMAGES else SPEC


def describe(agent: Any, name: str, **fields: Any) -> PolicyDescription:
    """Return the description of the policy of ``agent``, with ``fields`` instead of its own."""
    decision = agent.decision()
    values = {
        "spec": spec_of(name),
        "agent": name,
        "step": 7,
        "action_chunk": agent.config.action_chunk,
        "observed": decision.observed,
        "noise_size": decision.noise_size,
        "noise_seed": decision.noise_seed,
        "version": "0.1",
    }
    return PolicyDescription(**(values | fields))


def write(
    agent: Any, name: str, file: Path, observations: int = 20, weights: str = "float32", **fields: Any
) -> Verification | None:
    """Write the policy of ``agent``, and compare it with PyTorch; ``fields`` are of its description."""
    return write_policy(file, agent, agent.decision(), describe(agent, name, **fields), observations, 0, weights)
