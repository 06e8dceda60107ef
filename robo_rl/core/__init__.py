"""Types, protocols, specs, errors and clocks that all packages share.

This package imports nothing else of robo-rl; every other package imports only this one.

A name is imported with its first use, so that a command that uses few of them starts quickly.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .addresses import is_loopback
    from .agent_protocols import (
        Agent,
        AgentConfig,
        ComparisonLearner,
        Critic,
        Decision,
        Deployable,
        FeatureExtractor,
        OfflineLearner,
        Policy,
        RankedLearner,
        ScriptedExpert,
        WarmStartLearner,
    )
    from .announcements import announce, listening
    from .camera_model import CameraModel, CameraPose
    from .clock import Clock, ManualClock, MonotonicClock
    from .closing import Closing
    from .config import as_config, check_seed, config_node, section, typed
    from .delayed import DelayedBackend
    from .drafts import draft_of, remove_abandoned_drafts, scratch_folder
    from .durable import copy_durably, sync_folder, sync_tree, write_durably
    from .emergency import DeadmanSwitch, EmergencyStop, GuardBeat, StopButton, deadman_file
    from .errors import (
        DEADMAN,
        EMERGENCY_STOP,
        GUARD_SILENT,
        RESET_SHARED,
        RESET_UNANSWERED,
        ROBOT_AWAY,
        CheckpointError,
        ConfigError,
        DataError,
        DivergenceError,
        DriverError,
        NativeBuildError,
        RankError,
        RenderingError,
        RoboRLError,
        RobotAwayError,
        SafetyStop,
        SpecError,
        TransportError,
        nearest,
    )
    from .execution import ExecutionReport
    from .extras import importing_extra
    from .folders import user_folder
    from .foreign import (
        ENTRIES,
        ForeignFolder,
        NoJsonError,
        check_yaml,
        open_regular,
        parse_json,
        read_bytes,
        read_secret,
    )
    from .history import HISTORY, HistoryBackend
    from .image_files import MAX_PIXELS, ImageHeader, decode_image_file, read_image_header
    from .image_layouts import ImageConfig, ImageLayout, image_axes, image_layout, image_override
    from .interruption import Interruption, sigterm_unwinds
    from .latch import plain_text
    from .limits import CONSTRAINT, Constrained, Constraints, Limit, find_constraints
    from .machine import RewardMachine
    from .machine_backend import (
        MACHINE,
        PROGRESS,
        MachineBackend,
        MachineSteps,
        PartlyMeasured,
        find_machine,
        machine_states,
        unmeasured,
    )
    from .machine_file import read_machine
    from .mjcf_limits import check_mjcf
    from .native import compiler_problem, native_library
    from .network_size import claim_parameters, is_too_large, memory_bytes, networks_within, networks_within_memory
    from .observing import observe
    from .options import (
        MAX_RATE,
        MAX_SECONDS,
        MIN_RATE,
        Options,
        all_problems,
        bounds_of,
        moved_section,
        option,
        require,
    )
    from .own_commands import own_command
    from .own_stop import OwnStop
    from .packed import blosc_size, zstd_size
    from .protocols import (
        EnvBackend,
        GoalTask,
        ObservationGuard,
        PersistentWorld,
        PosableWorld,
        ResetController,
        ReturnLearner,
        ReturnScaled,
        SafetyFilter,
        SimulatedState,
        SpaceTranslation,
        Teleop,
        TranslatingBackend,
    )
    from .readers import (
        finite_number,
        load_config,
        load_options,
        reading,
        saved_counts,
        saved_numbers,
        whole_number,
    )
    from .relative import OBSERVATION_FRAME, RelativeBackend, find_relative
    from .repetition import Repetitions
    from .reset_latch import ResetLatch
    from .reward import BEFORE, RewardWeights
    from .reward_protocols import Experience, Reward, RewardConfig, RewardModule, Scorer, TermScorer
    from .robot import ArmPose, ArmTarget, BaseTarget, FrameTransform, RobotDescription, shortest
    from .ros_arguments import parse_ros_arguments, pass_on, passed_on
    from .ros_images import decode_ros_compressed_image, decode_ros_image
    from .rotation import matrix_of_quaternion, matrix_of_vector, quaternion_of_matrix, vector_of_matrix
    from .seeding import derive_seed, generator
    from .signals import ObservationSignals
    from .specs import PYTHON_NAMESPACE, ArraySpec, EnvSpec
    from .temporal import Formula
    from .temporal_text import parse_specification
    from .text import printable
    from .turning import TurningBackend, TurningState, turning_positions
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
        happened,
    )
    from .wire_protocols import TransitionInbox, TransitionOutbox
    from .wording import counted, override, override_word, quoted
    from .wrapped_backend import WrappedBackend, WrappedWorld, posable_world, simulated_state
else:
    from .lazy import imported_on_use

    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "BEFORE",
    "CONSTRAINT",
    "DEADMAN",
    "EMERGENCY_STOP",
    "ENTRIES",
    "GUARD_SILENT",
    "HISTORY",
    "MACHINE",
    "MAX_PIXELS",
    "MAX_RATE",
    "MAX_SECONDS",
    "MIN_RATE",
    "OBSERVATION_FRAME",
    "PASSED",
    "PROGRESS",
    "PYTHON_NAMESPACE",
    "RESET_SHARED",
    "RESET_UNANSWERED",
    "ROBOT_AWAY",
    "TEACHERS",
    "Agent",
    "AgentConfig",
    "ArmPose",
    "ArmTarget",
    "ArraySpec",
    "BaseTarget",
    "Batch",
    "CameraModel",
    "CameraPose",
    "CheckpointError",
    "Clock",
    "Closing",
    "ComparisonLearner",
    "Comparisons",
    "ConfigError",
    "Constrained",
    "Constraints",
    "Critic",
    "DataError",
    "DeadmanSwitch",
    "Decision",
    "DelayedBackend",
    "Deployable",
    "DivergenceError",
    "DriverError",
    "EmergencyStop",
    "EnvBackend",
    "EnvSpec",
    "ExecutionReport",
    "Experience",
    "FeatureExtractor",
    "ForeignFolder",
    "Formula",
    "FrameTransform",
    "GoalTask",
    "GuardBeat",
    "HistoryBackend",
    "ImageConfig",
    "ImageHeader",
    "ImageLayout",
    "Interruption",
    "Intervention",
    "Limit",
    "MachineBackend",
    "MachineSteps",
    "ManualClock",
    "Metrics",
    "MonotonicClock",
    "NativeBuildError",
    "NoJsonError",
    "Observation",
    "ObservationGuard",
    "ObservationSignals",
    "OfflineLearner",
    "Options",
    "OwnStop",
    "PartlyMeasured",
    "PersistentWorld",
    "Policy",
    "PosableWorld",
    "RankError",
    "RankedLearner",
    "Refusal",
    "RelativeBackend",
    "RenderingError",
    "Repetitions",
    "ResetController",
    "ResetLatch",
    "ResetOutcome",
    "ReturnLearner",
    "ReturnScaled",
    "Reward",
    "RewardConfig",
    "RewardMachine",
    "RewardModule",
    "RewardWeights",
    "RoboRLError",
    "RobotAwayError",
    "RobotDescription",
    "SafetyFilter",
    "SafetyStop",
    "Scorer",
    "ScriptedExpert",
    "SessionProgress",
    "SimulatedState",
    "Source",
    "SpaceTranslation",
    "SpecError",
    "State",
    "Step",
    "StopButton",
    "Teleop",
    "TermScorer",
    "Transition",
    "TransitionInbox",
    "TransitionOutbox",
    "TranslatingBackend",
    "TransportError",
    "TurningBackend",
    "TurningState",
    "Verdict",
    "WarmStartLearner",
    "WrappedBackend",
    "WrappedWorld",
    "all_problems",
    "announce",
    "as_config",
    "blosc_size",
    "bounds_of",
    "check_mjcf",
    "check_seed",
    "check_yaml",
    "claim_parameters",
    "compiler_problem",
    "config_node",
    "copy_durably",
    "counted",
    "deadman_file",
    "decode_image_file",
    "decode_ros_compressed_image",
    "decode_ros_image",
    "derive_seed",
    "draft_of",
    "find_constraints",
    "find_machine",
    "find_relative",
    "finite_number",
    "generator",
    "happened",
    "image_axes",
    "image_layout",
    "image_override",
    "importing_extra",
    "is_loopback",
    "is_too_large",
    "listening",
    "load_config",
    "load_options",
    "machine_states",
    "matrix_of_quaternion",
    "matrix_of_vector",
    "memory_bytes",
    "moved_section",
    "native_library",
    "nearest",
    "networks_within",
    "networks_within_memory",
    "observe",
    "open_regular",
    "option",
    "override",
    "override_word",
    "own_command",
    "parse_json",
    "parse_ros_arguments",
    "parse_specification",
    "pass_on",
    "passed_on",
    "plain_text",
    "posable_world",
    "printable",
    "quaternion_of_matrix",
    "quoted",
    "read_bytes",
    "read_image_header",
    "read_machine",
    "read_secret",
    "reading",
    "remove_abandoned_drafts",
    "require",
    "saved_counts",
    "saved_numbers",
    "scratch_folder",
    "section",
    "shortest",
    "sigterm_unwinds",
    "simulated_state",
    "sync_folder",
    "sync_tree",
    "turning_positions",
    "typed",
    "unmeasured",
    "user_folder",
    "vector_of_matrix",
    "whole_number",
    "write_durably",
    "zstd_size",
]
