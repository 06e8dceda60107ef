"""Composition of running objects from a configuration.

The configuration names objects by ``_target_``, and this package makes them. A user's own task, agent or robot in the
user's own package therefore needs a line of configuration, but no registration here. A *saved* configuration may name
only what an allow-list permits: see :func:`allow_packages`.
"""

from typing import TYPE_CHECKING

from ..core.lazy import imported_on_use

if TYPE_CHECKING:
    from .allow_list import allow_packages, needed_packages
    from .base import keep_base
    from .components import Components, build_backend, build_resets, build_safe_backend
    from .composition import (
        agent_facts,
        build,
        build_acting_agent,
        build_agent,
        build_reward,
        has_robot,
        observation_options,
        set_threads,
    )
    from .config import (
        ActorConfig,
        AsyncRuntimeConfig,
        DemonstrationsConfig,
        RayRuntimeConfig,
        RunConfig,
        StartConfig,
        check_resources,
    )
    from .deployed import PolicySource, load_evaluated, write_deployed
    from .evaluated import change_task, evaluated_policy
    from .expert import make_intervention
    from .machine_copy import keep_machine
    from .network_limits import networks_of, networks_of_run
    from .planned import PLANNER, with_source
    from .registration import register_all_configs, register_configs
    from .scenes import scene_limits
    from .stops import emergency_stop, find_emergency_stop, find_stop_button, press_emergency_stop, robot_name
    from .trained import (
        RESUMED,
        TrainedAgent,
        TrainedPolicy,
        acting_config,
        complete_config,
        load_agent,
        load_policy,
        load_reward,
        robot_note,
        run_config,
        saved_config,
    )
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "PLANNER",
    "RESUMED",
    "ActorConfig",
    "AsyncRuntimeConfig",
    "Components",
    "DemonstrationsConfig",
    "PolicySource",
    "RayRuntimeConfig",
    "RunConfig",
    "StartConfig",
    "TrainedAgent",
    "TrainedPolicy",
    "acting_config",
    "agent_facts",
    "allow_packages",
    "build",
    "build_acting_agent",
    "build_agent",
    "build_backend",
    "build_resets",
    "build_reward",
    "build_safe_backend",
    "change_task",
    "check_resources",
    "complete_config",
    "emergency_stop",
    "evaluated_policy",
    "find_emergency_stop",
    "find_stop_button",
    "has_robot",
    "keep_base",
    "keep_machine",
    "load_agent",
    "load_evaluated",
    "load_policy",
    "load_reward",
    "make_intervention",
    "needed_packages",
    "networks_of",
    "networks_of_run",
    "observation_options",
    "press_emergency_stop",
    "register_all_configs",
    "register_configs",
    "robot_name",
    "robot_note",
    "run_config",
    "saved_config",
    "scene_limits",
    "set_threads",
    "with_source",
    "write_deployed",
]
