"""Writing of a policy to a file, which is compared with PyTorch before it receives its final name."""

from pathlib import Path

from robo_rl.core import ConfigError, Decision, Policy, draft_of, generator, importing_extra, require

from .c_header import to_c
from .description import PolicyDescription
from .tracing import trace
from .verification import TOLERANCES, Verification, verify

SUFFIXES = (".onnx", ".h")


def check_name(output: Path) -> None:
    """Check that the name of a file states a format in which policies can be written.

    Raises:
        ConfigError: if it does not.
    """
    if output.suffix not in SUFFIXES:
        raise ConfigError(f"output: expected NAME.onnx (ONNX) or NAME.h (a C99 header), got {str(output)!r}")


def check_weights(weights: str) -> None:
    """Check that ``weights`` is a type of weights that files can have.

    Raises:
        ConfigError: if it is not.
    """
    require(weights in TOLERANCES, "weights", " or ".join(TOLERANCES), weights)


def write_policy(
    output: Path,
    policy: Policy,
    decision: Decision,
    description: PolicyDescription,
    observations: int,
    seed: int,
    weights: str = "float32",
) -> Verification | None:
    """Write a policy to the file ``output``, in the format that its suffix states. An existing file is replaced.

    Args:
        output: path of an ONNX file or a C header.
        policy: policy in PyTorch, just loaded: its generator of noise is in its initial state.
        decision: decision of ``policy``.
        description: description of ``policy``.
        observations: number of random observations on which the file is compared with ``policy``.
        seed: seed of these observations.
        weights: type of the weights in the file: ``float32``, or ``int8`` with a scale for each output of a layer.

    Returns:
        The outcome of the comparison; None for a C header if there is no compiler.

    Raises:
        ConfigError: if the format cannot hold the policy, or packages are missing.
        DataError: if the file differs from the policy. Nothing is written then.
    """
    check_name(output)
    graph = trace(decision, decision.example(generator(seed, "trace")), description.agent)
    if weights == "int8":
        graph = graph.quantised()
    if output.suffix == ".h":
        content = to_c(graph, description, output.stem).encode()
    else:
        with importing_extra("deploy", "ONNX files need the packages onnx and onnxruntime"):
            from .onnx_file import to_onnx
        content = to_onnx(graph, description)
    with draft_of(output) as draft:
        draft.write_bytes(content)
        verification = verify(draft, policy, decision, description, observations, seed, weights)
        draft.replace(output)
    return verification
