"""Policies written to files for use without PyTorch, and policies of files, LeRobot and servers for evaluations."""

from pathlib import Path
from typing import NamedTuple, cast

import torch
from omegaconf import DictConfig

from ..core import Agent, ConfigError, DataError, Decision, Deployable, EnvSpec, importing_extra, printable, require
from ..deployment import PolicyDescription, Verification, write_policy
from ..version import __version__
from .base import policy_fingerprint
from .lerobot_base import open_lerobot
from .server_base import open_server
from .trained import TrainedPolicy, checkpoint_of, load_policy, run_config


class PolicySource(NamedTuple):
    """Where a policy comes from: a checkpoint of a run, or a file, folder or address; see :func:`load_evaluated`."""

    run: Path | None
    checkpoint: str
    file: str | None

    @classmethod
    def of(cls, name: str) -> "PolicySource":
        """Return the source that an entry of the option ``policies`` names."""
        folder, _, checkpoint = name.partition("@")
        if (Path(folder) / "config.yaml").is_file():
            return cls(Path(folder), checkpoint or "best", None)
        require(
            name.startswith(("ws://", "wss://")) or Path(name).exists(),
            "policies",
            "run folders (FOLDER or FOLDER@CHECKPOINT), ONNX files, folders of LeRobot or ws://HOST:PORT",
            name,
        )
        return cls(None, "best", name)

    def fingerprint(self, trained: TrainedPolicy) -> str:
        """Return a text that changes with the policy, which :func:`load_evaluated` has loaded from here."""
        known = getattr(trained.policy, "fingerprint", None)
        return str(known) if known is not None else policy_fingerprint(cast(Agent, trained.policy).policy_state())


def load_evaluated(
    run: Path,
    spec: EnvSpec,
    checkpoint: str,
    file: str | None,
    *,
    config: DictConfig | None = None,
    announces: bool = True,
) -> TrainedPolicy:
    """Return the policy of a run, or that of a file, for an environment of ``spec``.

    Args:
        run: folder of the run, in whose environment the policy acts.
        spec: spec of this environment, which must match that of the policy.
        checkpoint: ``best``, ``newest`` or the number of a step of the run; not used if there is a file.
        file: path of an ONNX file or of a folder of LeRobot, or the address of a policy server (ws://HOST:PORT); None:
            the policy of the run.
        config: configuration of the run, if the caller has read it.
        announces: whether operators receive a message when a policy server fails.

    Raises:
        CheckpointError: see :func:`load_policy`, also if the run has no checkpoint.
        ConfigError: if packages are missing.
        LeRobotError, PolicyServerError: if LeRobot or the server cannot compute the policy.
        DataError: if the file was not written by robo-rl deploy or LeRobot, is damaged, or does not match the spec.
    """
    config = run_config(run) if config is None else config
    if file is None:
        return load_policy(run, spec, checkpoint, config)
    if Path(file).is_dir():
        lerobot = open_lerobot(Path(file))
        if differences := lerobot.differences(spec):
            raise DataError(f"{lerobot.name} does not match task {spec.task!r}: {'; '.join(differences)}")
        lerobot.start()
        return TrainedPolicy(lerobot, spec, config, 0, lerobot.action_chunk, checkpoint_of(run, "best"))
    if file.startswith(("ws://", "wss://")):
        served = open_server(file)
        served.announces = announces
        if differences := served.differences(spec):
            raise DataError(f"the policy {served.name} does not match task {spec.task!r}: {'; '.join(differences)}")
        step = 0 if served.description is None else served.description.step
        return TrainedPolicy(served, spec, config, step, served.action_chunk, checkpoint_of(run, "best"))
    with importing_extra("deploy", "ONNX files need the packages onnx and onnxruntime"):
        from ..deployment.onnx_policy import OnnxPolicy
    policy = OnnxPolicy.load(Path(file))
    policy.check(spec)
    facts = policy.description
    return TrainedPolicy(policy, facts.spec, config, facts.step, facts.action_chunk, checkpoint_of(run, "best"))


def write_deployed(
    trained: TrainedPolicy, output: Path, observations: int = 1000, seed: int = 0, weights: str = "float32"
) -> Verification | None:
    """Write the policy of a run to a file, and compare the two on random observations, on one core.

    Args:
        trained: the policy, just loaded: its generator of noise is in its initial state.
        output: path of an ONNX file (``.onnx``) or a C99 header (``.h``), which is replaced if it exists.
        observations: number of random observations.
        seed: seed of these observations.
        weights: type of the weights in the file: ``float32`` or ``int8``.

    Returns:
        The outcome of the comparison; None for a C header if there is no compiler.

    Raises:
        ConfigError: if the policy cannot be written in this format, or packages are missing.
        DataError: if the file differs from the policy. Nothing is written then.
    """
    decision, description = described(trained)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the times are for one core
    try:
        return write_policy(output, trained.policy, decision, description, observations, seed, weights)
    finally:
        torch.set_num_threads(threads)


def described(trained: TrainedPolicy) -> tuple[Decision, PolicyDescription]:
    """Return the decision of a policy, and its description for programs that use it.

    Raises:
        ConfigError: if the agent has no decision.
    """
    agent = printable(str(trained.config.choices.get("agent")))
    if not isinstance(trained.policy, Deployable):
        raise ConfigError(f"agent {agent} has no decision (robo_rl.core.Deployable) for use outside its run")
    decision = trained.policy.decision()
    description = PolicyDescription(
        spec=trained.spec,
        agent=agent,
        step=trained.step,
        action_chunk=trained.action_chunk,
        observed=decision.observed,
        noise_size=decision.noise_size,
        noise_seed=decision.noise_seed,
        version=__version__,
    )
    return decision, description
