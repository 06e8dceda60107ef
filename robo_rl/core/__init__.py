"""Types, protocols, specs, errors and clocks that every room shares.

This package imports nothing else of robo-rl; every other package imports only this one.
"""

from .agent_protocols import (
    Agent,
    AgentConfig,
    ComparisonLearner,
    Critic,
    FeatureExtractor,
    OfflineLearner,
    Policy,
    RankedLearner,
    ScriptedExpert,
)
from .clock import Clock, ManualClock, MonotonicClock
from .closing import Closing
from .config import as_config, config_node, require
from .durable import sync_folder, write_durably
from .emergency import DeadmanSwitch, EmergencyStop, StopButton, deadman_file
from .errors import (
    DEADMAN,
    EMERGENCY_STOP,
    CheckpointError,
    ConfigError,
    DataError,
    DivergenceError,
    DriverError,
    NativeBuildError,
    RankError,
    RenderingError,
    RoboRLError,
    SafetyStop,
    SpecError,
    TransportError,
    nearest,
)
from .folders import user_folder
from .native import native_library
from .protocols import (
    EnvBackend,
    ObservationGuard,
    PersistentWorld,
    ResetController,
    ReturnLearner,
    SafetyFilter,
    Teleop,
)
from .reward import RewardWeights
from .reward_protocols import Experience, Reward, RewardConfig, RewardModule, Scorer
from .robot import ArmPose, ArmTarget, BaseTarget, FrameTransform, RobotDescription
from .ros_arguments import RosArguments, parse_ros_arguments, pass_on, passed_on
from .seeding import derive_seed, generator
from .signals import ObservationSignals
from .specs import ArraySpec, EnvSpec
from .temporal import Formula, parse_specification
from .types import (
    PASSED,
    TEACHERS,
    Batch,
    Comparisons,
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
    "ComparisonLearner",
    "Comparisons",
    "ConfigError",
    "Critic",
    "DataError",
    "DeadmanSwitch",
    "DivergenceError",
    "DriverError",
    "EmergencyStop",
    "EnvBackend",
    "EnvSpec",
    "Experience",
    "FeatureExtractor",
    "Formula",
    "FrameTransform",
    "Intervention",
    "ManualClock",
    "Metrics",
    "MonotonicClock",
    "NativeBuildError",
    "Observation",
    "ObservationGuard",
    "ObservationSignals",
    "OfflineLearner",
    "PersistentWorld",
    "Policy",
    "RankError",
    "RankedLearner",
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
    "RosArguments",
    "SafetyFilter",
    "SafetyStop",
    "Scorer",
    "ScriptedExpert",
    "SessionProgress",
    "Source",
    "SpecError",
    "State",
    "Step",
    "StopButton",
    "Teleop",
    "Transition",
    "TransitionInbox",
    "TransitionOutbox",
    "TransportError",
    "Verdict",
    "as_config",
    "config_node",
    "deadman_file",
    "derive_seed",
    "generator",
    "native_library",
    "nearest",
    "parse_ros_arguments",
    "parse_specification",
    "pass_on",
    "passed_on",
    "require",
    "sync_folder",
    "user_folder",
    "write_durably",
]
