"""Types, protocols, specs, errors and clocks that every room shares.

This package imports nothing else of robo-rl; every other package imports only this one.
"""

from .clock import Clock, ManualClock, MonotonicClock
from .closing import Closing
from .config import config_node, require
from .durable import sync_folder, write_durably
from .errors import (
    DEADMAN,
    EMERGENCY_STOP,
    CheckpointError,
    ConfigError,
    DataError,
    DivergenceError,
    DriverError,
    NativeBuildError,
    RenderingError,
    RoboRLError,
    SafetyStop,
    SpecError,
    TransportError,
    nearest,
)
from .native import native_library
from .protocols import (
    Agent,
    AgentConfig,
    Critic,
    EnvBackend,
    FeatureExtractor,
    ObservationGuard,
    PersistentWorld,
    Policy,
    ResetController,
    ReturnLearner,
    SafetyFilter,
    ScriptedExpert,
    Teleop,
)
from .reward import RewardWeights
from .reward_protocols import Experience, Reward, RewardConfig, RewardModule, Scorer
from .robot import ArmPose, ArmTarget, BaseTarget, RobotDescription
from .seeding import derive_seed, generator
from .signals import ObservationSignals
from .specs import ArraySpec, EnvSpec
from .temporal import Formula, parse_specification
from .types import (
    PASSED,
    TEACHERS,
    Batch,
    Intervention,
    Metrics,
    Observation,
    Refusal,
    ResetOutcome,
    SessionProgress,
    Source,
    State,
    Step,
    Transition,
    Verdict,
)
from .wire_protocols import TransitionInbox, TransitionOutbox

__all__ = [
    "DEADMAN",
    "EMERGENCY_STOP",
    "PASSED",
    "TEACHERS",
    "Agent",
    "AgentConfig",
    "ArmPose",
    "ArmTarget",
    "ArraySpec",
    "BaseTarget",
    "Batch",
    "CheckpointError",
    "Clock",
    "Closing",
    "ConfigError",
    "Critic",
    "DataError",
    "DivergenceError",
    "DriverError",
    "EnvBackend",
    "EnvSpec",
    "Experience",
    "FeatureExtractor",
    "Formula",
    "Intervention",
    "ManualClock",
    "Metrics",
    "MonotonicClock",
    "NativeBuildError",
    "Observation",
    "ObservationGuard",
    "ObservationSignals",
    "PersistentWorld",
    "Policy",
    "Refusal",
    "RenderingError",
    "ResetController",
    "ResetOutcome",
    "ReturnLearner",
    "Reward",
    "RewardConfig",
    "RewardModule",
    "RewardWeights",
    "RoboRLError",
    "RobotDescription",
    "SafetyFilter",
    "SafetyStop",
    "Scorer",
    "ScriptedExpert",
    "SessionProgress",
    "Source",
    "SpecError",
    "State",
    "Step",
    "Teleop",
    "Transition",
    "TransitionInbox",
    "TransitionOutbox",
    "TransportError",
    "Verdict",
    "config_node",
    "derive_seed",
    "generator",
    "native_library",
    "nearest",
    "parse_specification",
    "require",
    "sync_folder",
    "write_durably",
]
