"""The policy of a run in the environment of the run, for evaluations."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..core import ConfigError, Policy, moved_section, nearest, require, section
from ..evaluation import EvaluationResult, evaluate
from ..residual import BaseActionBackend, BasePolicy, ExecutedPolicy, ExecutionConfig, FrozenPolicy
from ..safety import NoticingBackend
from .base import as_base, executed
from .components import build_backend
from .composition import build_reward, has_robot, measured_constraints
from .deployed import load_evaluated
from .network_limits import networks_of
from .trained import TrainedPolicy


class Measure(Protocol):
    """:func:`.evaluate` with backend, episodes, seed and rewards given."""

    def __call__(
        self, policy: Policy, *, explore: bool = False, video: Path | None = None, video_episodes: int = 5
    ) -> EvaluationResult: ...


@dataclass(frozen=True)
class Evaluated:
    """A policy to evaluate, and the function that does so in the environment of its run."""

    trained: TrainedPolicy
    measure: Measure


def change_task(config: DictConfig, options: Mapping[str, Any]) -> None:
    """Set options of the task of a run's configuration.

    Raises:
        ConfigError: if the task has no such option, or a value has the wrong type.
    """
    for key, value in options.items():
        if key not in config.task:
            raise ConfigError(f"task has no option {key!r}: {nearest(str(key), map(str, config.task))}")
        try:
            OmegaConf.update(config.task, str(key), value)
        except OmegaConfBaseException as error:
            raise ConfigError(f"task.{key}: {str(error).partition(chr(10))[0]}") from error


@contextlib.contextmanager
def evaluated_policy(
    folder: Path,
    config: DictConfig,
    *,
    checkpoint: str,
    file: str | None = None,
    episodes: int,
    seed: int,
    execution: Mapping[str, Any] | None = None,
) -> Iterator[Evaluated]:
    """Make the environment of a run, for the block, and load a policy to evaluate in it.

    Args:
        folder: folder of the run.
        config: configuration of the run, see :func:`.acting_config`.
        checkpoint: as in :func:`.load_policy`.
        file: path of an ONNX file, or of a folder of LeRobot, with another policy; None: the policy of the run.
        episodes: number of episodes of an evaluation.
        seed: seed of the start states.
        execution: options of :class:`~robo_rl.residual.ExecutionConfig` for the chunks of the policy or, if the run
            corrects a base policy, for those of the base. Others are as the run says.

    Raises:
        CheckpointError, ConfigError, DataError: see :func:`.load_evaluated`.
        ConfigError: also if the policy cannot be executed like this.
    """
    simulated = not has_robot(config)
    latency = (execution or {}).get("latency")
    require(simulated or latency is None, "execution.latency", "null on a robot, where it is measured", latency)
    with moved_section("execution", "base.execution"):
        configured: ExecutionConfig = section(config.base, "execution") if "base" in config else ExecutionConfig()
    changed = configured.changed(execution or {})
    if "base" in config:
        config.base.execution = changed
    inner = build_backend(config)
    backend = NoticingBackend(inner, print)
    frozen: BasePolicy | None = inner.base if isinstance(inner, BaseActionBackend) else None
    try:
        trained = load_evaluated(folder, backend.spec, checkpoint, file, config=config)
        if execution and frozen is None and changed.is_used(simulated):
            frozen = executed(as_base(trained, file or str(folder)), trained.spec, changed, simulated=simulated)
            trained = replace(trained, policy=FrozenPolicy(frozen))
        with networks_of(trained.checkpoint, "reward"):
            built = build_reward(config.reward, backend.spec, config.seed)
        reward = built.task
        terms = backend.spec.reward_terms
        measure = partial(
            evaluate,
            backend,
            episodes=episodes,
            seed=seed,
            reward_weights=dict(zip(terms, reward.vector(terms).tolist(), strict=True)),
            reward_offset=reward.offset,
            constraints=measured_constraints(built, backend),
        )
        yield Evaluated(trained, _reporting(measure, frozen) if isinstance(frozen, ExecutedPolicy) else measure)
    finally:
        backend.close()
        if frozen is not None:
            frozen.close()


def _reporting(measure: Measure, frozen: ExecutedPolicy) -> Measure:
    """Return ``measure`` with a report on the execution of the policy in its results."""

    def measured(policy: Policy, **options: Any) -> EvaluationResult:
        frozen.restart_report()
        result = measure(policy, **options)
        return replace(result, execution=frozen.report())

    return measured
