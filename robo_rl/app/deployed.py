"""The policy to evaluate: that of a run, or one that robo-rl deploy wrote to a file."""

from pathlib import Path

from ..core import EnvSpec
from ..deployment.packages import onnx_packages
from .trained import TrainedPolicy, checkpoint_of, load_policy, run_config


def load_evaluated(run: Path, spec: EnvSpec, checkpoint: str, file: str | None) -> TrainedPolicy:
    """Return the policy of a run, or that of a file, for an environment of ``spec``.

    Args:
        run: folder of the run, in whose environment the policy acts.
        spec: spec of this environment, which must match that of the policy.
        checkpoint: ``best``, ``newest`` or the number of a step of the run; not used if there is a file.
        file: path of an ONNX file; None: the policy of the run.

    Raises:
        CheckpointError: see :func:`load_policy`, also if the run has no checkpoint.
        ConfigError: if packages are missing.
        DataError: if the file was not written by robo-rl deploy, is damaged, or was written for another spec.
    """
    if file is None:
        return load_policy(run, spec, checkpoint)
    with onnx_packages():
        from ..deployment.onnx_policy import OnnxPolicy
    policy = OnnxPolicy.load(Path(file))
    policy.check(spec)
    facts = policy.description
    return TrainedPolicy(
        policy, facts.spec, run_config(run), facts.step, facts.action_chunk, checkpoint_of(run, "best")
    )
