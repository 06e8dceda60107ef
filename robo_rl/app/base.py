"""The base policy of a run: from another run, an ONNX file, LeRobot or a server, and its copy in the run folder."""

import hashlib
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from omegaconf import DictConfig

from ..core import (
    Agent,
    ConfigError,
    Deployable,
    EnvSpec,
    Observation,
    State,
    copy_durably,
    draft_of,
    importing_extra,
    moved_section,
    printable,
    section,
    write_durably,
)
from ..deployment.lerobot_policy import LeRobotPolicy
from ..learner import Checkpoint, CheckpointFolder, load_checkpoint
from ..residual import BASE_POLICY, BaseConfig, BasePolicy, ExecutedPolicy, ExecutionConfig, KnownActions
from .base_copy import FILE, FOLDER, use_copy
from .composition import has_robot
from .lerobot_base import LeRobotBase, open_lerobot
from .server_base import ServerBase, open_server
from .trained import TrainedPolicy, checkpoint_of, load_policy


@runtime_checkable
class ChunkDecider(Protocol):
    """A policy that decides on a new chunk of actions (h, A) on request."""

    def decide(self, observation: Observation) -> NDArray[np.float32]: ...


def load_base(config: DictConfig) -> BasePolicy | None:
    """Return the base policy that the section ``base`` names; None if there is none.

    Raises:
        CheckpointError, ConfigError or DataError: if it cannot be read, or needs a base policy itself.
    """
    settings = _settings(config)
    if settings.run is not None:
        return _of_run(load_policy(Path(settings.run), None, settings.checkpoint), settings.run)
    if settings.lerobot is not None:
        return LeRobotBase(open_lerobot(Path(settings.lerobot)))
    if settings.server.address is not None:
        return ServerBase(open_server(settings.server.address, settings.server))
    return None if settings.policy is None else _of_file(Path(settings.policy))


def executed(base: BasePolicy, spec: EnvSpec, settings: ExecutionConfig, *, simulated: bool) -> BasePolicy:
    """Return a base policy whose chunks are executed as ``settings`` say in an environment of ``spec``.

    Raises:
        ConfigError: if the policy cannot be executed like this.
    """
    if not settings.is_used(simulated):
        return base
    return ExecutedPolicy(base, spec, settings, simulated=simulated)


def as_base(trained: TrainedPolicy, name: str) -> BasePolicy:
    """Return the policy of a run, a file, LeRobot or a server, that was checked for its environment, as a base policy.

    Args:
        trained: the policy.
        name: where it comes from, for messages.

    Raises:
        ConfigError: if its decision cannot be computed outside the run.
    """
    policy = trained.policy
    if isinstance(policy, LeRobotPolicy):
        return LeRobotBase(policy)
    if isinstance(policy, ChunkDecider):
        decider = policy
        return BasePolicy(lambda observation, _: decider.decide(observation), name, name, trained.spec)
    return _of_run(trained, name)


def keep_base(config: DictConfig, folder: Path) -> None:
    """Copy the base policy, if there is one, into a run folder, and let ``config`` name the copy.

    A run that is resumed uses the copy that it has.

    Raises:
        CheckpointError, ConfigError or DataError: if the policy cannot be read.
        ConfigError: also if there is none although the agent needs one, the run could not be repeated, or the copy
            cannot be written.
    """
    settings, kept = _settings(config), folder / FOLDER
    if settings.execution.asynchronous and settings.execution.latency is None and not has_robot(config):
        raise ConfigError(
            "base.execution.asynchronous=true needs base.execution.latency, the emulated time of a decision [s], in "
            "simulation: with the measured time the run could not be repeated"
        )
    if not settings.is_given:
        if config.choices.get("agent") == "residual":
            raise ConfigError(
                "agent=residual corrects a base policy: set base.run=RUN, base.policy=FILE.onnx, base.lerobot=FOLDER "
                "or base.server.address=ws://HOST:PORT, or choose another agent"
            )
        return
    if not kept.exists():
        base = load_base(config)
        assert base is not None
        first = "" if settings.growth is None else f", of up to {settings.growth.start:g} at first"
        print(f"Base policy {base.name}; residuals of up to {settings.residual_scale:g}{first}", flush=True)
        try:
            with draft_of(kept) as draft:
                draft.mkdir()
                _copy(settings, draft)
                draft.rename(kept)
        except OSError as error:
            raise ConfigError(f"{kept} cannot be written: {error.strerror or error}") from error
    use_copy(config, folder)


def _settings(config: DictConfig) -> BaseConfig:
    with moved_section("execution", "base.execution"):
        settings: BaseConfig = section(config, "base") if "base" in config else BaseConfig()
    return settings


def _copy(settings: BaseConfig, draft: Path) -> None:
    """Write what is needed of the base policy into the folder ``draft``: nothing, if a server computes it."""
    if settings.policy is not None:
        write_durably(draft / FILE, Path(settings.policy).read_bytes())
        return
    if settings.lerobot is not None:
        for name in open_lerobot(Path(settings.lerobot)).files:
            copy_durably(Path(settings.lerobot) / name, draft / name)
        return
    if settings.run is None:
        return
    run = Path(settings.run)
    loaded = load_checkpoint(checkpoint_of(run, settings.checkpoint), only=("policy",))
    write_durably(draft / "config.yaml", (run / "config.yaml").read_bytes())
    kept = Checkpoint(loaded.step, loaded.parts, {"spec": loaded.facts.get("spec")})
    CheckpointFolder(draft / "checkpoints").save(kept)


def _of_run(trained: TrainedPolicy, run: str) -> BasePolicy:
    task, agent = printable(trained.spec.task), printable(str(trained.config.choices.get("agent")))
    _require_whole(f"base.run={run}", trained.spec)
    if not isinstance(trained.policy, Deployable):
        raise ConfigError(f"base.run={run} is of agent={agent}, which has no decision (robo_rl.core.Deployable)")
    decision = trained.policy.decision()

    @torch.inference_mode()
    def decide(observation: Observation, noise: NDArray[np.float32]) -> NDArray[np.float32]:
        inputs = {key: torch.from_numpy(observation[key]) for key in decision.observed}
        chunk: NDArray[np.float32] = decision.compute(inputs, torch.from_numpy(noise)).numpy(force=True)
        return chunk

    def inpaint(observation: Observation, noise: NDArray[np.float32], known: KnownActions) -> NDArray[np.float32]:
        assert decision.inpaint is not None
        inputs = {key: torch.from_numpy(observation[key]) for key in decision.observed}
        actions = torch.zeros(trained.action_chunk, known.actions.shape[1])
        weights, count = torch.zeros(trained.action_chunk), len(known.actions)
        actions[:count], weights[:count] = torch.from_numpy(known.actions), torch.from_numpy(known.weights)
        chunk: NDArray[np.float32] = decision.inpaint(inputs, torch.from_numpy(noise), actions, weights).numpy()
        return chunk

    name = f"{run} (task {task}, agent {agent}, step {trained.step:,})"
    fingerprint = policy_fingerprint(cast(Agent, trained.policy).policy_state())
    continues = inpaint if decision.inpaint is not None else None
    return BasePolicy(decide, name, fingerprint, trained.spec, decision.noise_size, continues)


def _of_file(file: Path) -> BasePolicy:
    with importing_extra("deploy", "ONNX files need the packages onnx and onnxruntime"):
        from ..deployment.onnx_policy import OnnxPolicy
    policy = OnnxPolicy.load(file)
    facts = policy.description
    _require_whole(f"base.policy={file}", facts.spec)
    name = f"{file} (task {printable(facts.spec.task)}, agent {printable(facts.agent)}, step {facts.step:,})"
    return BasePolicy(policy.decide, name, policy.fingerprint, facts.spec, facts.noise_size)


def _require_whole(option: str, spec: EnvSpec) -> None:
    """Check that a policy, of ``spec``, decides whole actions, not corrections.

    Raises:
        ConfigError: if it corrects another base policy.
    """
    if BASE_POLICY in spec.extra:
        raise ConfigError(
            f"{option} corrects a base policy itself: choose a policy without one, or continue its run with start.run"
        )


def policy_fingerprint(state: State) -> str:
    """Return a hash of arrays, their names, types and shapes."""
    digest = hashlib.sha256()
    for key in sorted(state):
        array = np.ascontiguousarray(state[key])
        digest.update(f"{key} {array.dtype.name} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
