"""Types, protocols, specs, errors and clocks that every room shares.

This package imports nothing else of robo-rl; every other package imports only this one.
"""

from .clock import Clock, ManualClock, MonotonicClock
from .config import config_node, require
from .errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DivergenceError,
    DriverError,
    RenderingError,
    RoboRLError,
    SpecError,
    nearest,
)
from .protocols import (
    Agent,
    AgentConfig,
    EnvBackend,
    Experience,
    Policy,
    ReplayStore,
    ResetController,
    Reward,
    RewardConfig,
    RewardModule,
    SafetyFilter,
    Scorer,
    ScriptedExpert,
    Teleop,
    Transport,
)
from .reward import RewardWeights
from .seeding import derive_seed, generator
from .specs import ArraySpec, EnvSpec
from .types import (
    Batch,
    Intervention,
    Metrics,
    Observation,
    ResetOutcome,
    Source,
    State,
    Step,
    Transition,
    Verdict,
)

__all__ = [
    "Agent",
    "AgentConfig",
    "ArraySpec",
    "Batch",
    "CheckpointError",
    "Clock",
    "ConfigError",
    "DataError",
    "DivergenceError",
    "DriverError",
    "EnvBackend",
    "EnvSpec",
    "Experience",
    "Intervention",
    "ManualClock",
    "Metrics",
    "MonotonicClock",
    "Observation",
    "Policy",
    "RenderingError",
    "ReplayStore",
    "ResetController",
    "ResetOutcome",
    "Reward",
    "RewardConfig",
    "RewardModule",
    "RewardWeights",
    "RoboRLError",
    "SafetyFilter",
    "Scorer",
    "ScriptedExpert",
    "Source",
    "SpecError",
    "State",
    "Step",
    "Teleop",
    "Transition",
    "Transport",
    "Verdict",
    "config_node",
    "derive_seed",
    "generator",
    "nearest",
    "require",
]
