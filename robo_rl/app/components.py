"""The objects of a run, made from its configuration."""

from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from ..core import (
    ConfigError,
    EnvBackend,
    MachineBackend,
    ResetController,
    derive_seed,
    find_machine,
    find_relative,
    moved_section,
    observe,
    section,
)
from ..residual import BaseActionBackend, BaseConfig
from .base import executed, load_base
from .composition import (
    build,
    build_agent,
    build_reward,
    has_robot,
    measured_constraints,
    observation_options,
    set_threads,
)
from .machine_copy import machine_file
from .returning import ReturnLearner
from .stops import find_stop_button


def build_backend(config: DictConfig, simulated: bool = False) -> EnvBackend:
    """Make the robot or simulator that ``config`` names, with its task and the safety filters around it.

    Args:
        config: configuration with the sections ``task``, ``safety`` and, for a robot, ``robot``, and possibly ``base``.
        simulated: make the simulation of the task even if there is a robot.
    """
    backend = build_safe_backend(config, simulated)
    try:
        is_simulated = simulated or not has_robot(config)
        backend = observe(backend, observation_options(config), is_simulated)
        if (machine := machine_file(config)) is not None:
            backend = MachineBackend(backend, machine, bool(config.task.get("terminate_on_success", True)))
        base = load_base(config)
        if base is None:
            return backend
        settings: BaseConfig = section(config, "base")
        base = executed(base, backend.spec, settings.execution, simulated=is_simulated)
        return BaseActionBackend(backend, base, settings.residual_scale, settings.growth)
    except BaseException:
        backend.close()
        raise


def build_safe_backend(config: DictConfig, simulated: bool = False) -> EnvBackend:
    """Make the robot or simulator with its safety filters, whose observations are those of its driver.

    Arguments as for :func:`build_backend`. With a machine, the success of the task itself does not end episodes.
    """
    if machine_file(config) is not None and "terminate_on_success" in config.task:
        config = config.copy()
        config.task.terminate_on_success = False  # robots refer to this option
    backend = cast(EnvBackend, build(config.task))
    try:
        if has_robot(config) and not simulated:
            backend = cast(EnvBackend, build(config.robot, simulation=backend))
        button = find_stop_button(config, simulated)
        return cast(EnvBackend, build(config.safety, backend=backend, button=button))
    except BaseException:
        backend.close()
        raise


def build_resets(node: DictConfig, backend: EnvBackend, seed: int) -> ResetController | None:
    """Make the reset controller of the section ``reset``; None if the backend's own reset begins episodes.

    Raises:
        ConfigError: if a controller needs poses in the base frame, which are not observed, or there is a base policy
            or a machine.
    """
    relative = find_relative(backend)
    spec = backend.spec if relative is None else relative.inner.spec
    arguments: dict[str, Any] = {"spec": spec, "robot": backend.robot, "seed": seed}
    parts = {"agent", "reward"}
    if parts <= node.keys():  # a learned reset has its own agent and reward
        if node.reward.get("constraints"):
            raise ConfigError("reset.reward.constraints: constraints are for the task, reward.constraints")
        reset_seed = derive_seed(seed, "reset")
        with moved_section("agent", "reset.agent"):
            agent = build_agent(node.agent, backend.spec, reset_seed)
        with moved_section("reward", "reset.reward"):
            reward = build_reward(node.reward, backend.spec, reset_seed)
        arguments["learner"] = ReturnLearner(agent, reward, backend.spec, node.replay_capacity, reset_seed)
        node = OmegaConf.masked_copy(node, [str(key) for key in node if key not in parts])
    controller = cast("ResetController | None", build(node, **arguments))
    if find_machine(backend) is not None and controller is not None:
        raise ConfigError(
            "a reset controller moves the robot within episodes of its own, in which task.machine would leave its "
            "first state: choose reset=seeded, in which the simulator, or the robot's own reset, begins episodes"
        )
    if isinstance(backend, BaseActionBackend) and controller is not None:
        raise ConfigError(
            "a reset controller would act on top of the base policy: choose reset=seeded, in which the simulator, or "
            "the robot's own reset, begins episodes"
        )
    if relative is not None and controller is not None:
        raise ConfigError(
            "task.observation.relative=true hides the pose in the base frame, by which a reset controller finds the "
            "way back: choose reset=seeded, in which the simulator, or the robot's own reset, begins episodes"
        )
    return controller


class Components:
    """The objects of a run.

    Attributes:
        backend: robot or simulator in which the agent acts.
        agent: the agent.
        reward: combines the reward terms, some of which it may compute itself, into one number.
        resets: begins the episodes of the training, or None.
    """

    def __init__(self, config: DictConfig) -> None:
        set_threads(config)
        self._config = config
        self.backend = build_backend(config)
        self._evaluation_backend: EnvBackend | None = None
        try:
            self.reward = build_reward(config.reward, self.backend.spec, config.seed)
            self.agent = build_agent(config.agent, self.backend.spec, config.seed)
            self._check_constraints()
            self.resets = build_resets(config.reset, self.backend, config.seed)
        except BaseException:
            self.close()
            raise

    def _check_constraints(self) -> None:
        """Check that what constraints limit is measured, and that their multipliers can move or are given.

        Raises:
            ConfigError: if not.
        """
        constraints = measured_constraints(self.reward, self.backend)
        if constraints is not None and not (self.agent.config.learns_online or constraints.is_weighed):
            raise ConfigError(
                "reward.constraints: multipliers follow from the episodes of a run, and this agent learns from "
                "demonstrations alone: give each a weight with reward.constraints.NAME.initial"
            )

    def evaluation_backend(self) -> EnvBackend:
        """Return a second backend of the same task, so that evaluations do not disturb the training episode.

        If there is a robot, training uses it, and this backend is its simulation, with the same observations and
        actions.
        """
        if self._evaluation_backend is None:
            self._evaluation_backend = build_backend(self._config, simulated=True)
        return self._evaluation_backend

    def close(self) -> None:
        """Close the backends."""
        self.backend.close()
        if self._evaluation_backend is not None:
            self._evaluation_backend.close()
