"""Policies that robo-rl deploy wrote to files, for evaluation in the environment of a run."""

from pathlib import Path

from ..core import EnvSpec
from ..deployment.packages import onnx_packages
from .trained import TrainedPolicy, checkpoint_of, run_config


def load_deployed(file: Path, run: Path, spec: EnvSpec) -> TrainedPolicy:
    """Return the policy of an ONNX file, for an environment of ``spec``.

    Args:
        file: path of the ONNX file.
        run: folder of the run in whose environment it acts.
        spec: spec of this environment, which must match that of the file.

    Raises:
        ConfigError: if packages are missing.
        DataError: if the file was not written by robo-rl deploy, is damaged, or was written for another spec.
        CheckpointError: if the run has no checkpoint.
    """
    with onnx_packages():
        from ..deployment.onnx_policy import OnnxPolicy
    policy = OnnxPolicy.load(file)
    policy.check(spec)
    facts = policy.description
    return TrainedPolicy(
        policy, facts.spec, run_config(run), facts.step, facts.action_chunk, checkpoint_of(run, "best")
    )
