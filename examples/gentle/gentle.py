"""Reward term ``gentle``: negative while the force at the wrist is above a limit."""

from dataclasses import dataclass

import numpy as np

from robo_rl.core import EnvSpec
from robo_rl.rewards import FunctionModule, register_module


@dataclass(frozen=True)
class GentleConfig:
    limit: float = 10.0  # largest force at the wrist without a cost [N]

    def make(self, name: str, spec: EnvSpec, seed: int) -> FunctionModule:
        x = spec.observation["state"].names.index("wrist_force_x")  # y and z follow
        return FunctionModule(lambda batch: self.score(batch["next_observation/state"][:, x : x + 3]))

    def score(self, forces: np.ndarray) -> np.ndarray:
        return np.minimum(0, 1 - np.linalg.norm(forces, axis=1) / self.limit)


def register() -> None:
    register_module("gentle", GentleConfig)
