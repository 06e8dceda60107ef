"""The check that an update has not diverged."""

import math

import torch

from robo_rl.core import DivergenceError, Metrics

from .networks import Parameters

ADVICE = "Lower the learning rates or agent.update_to_data, or look at the rewards."


def check_convergence(metrics: Metrics, actor: Parameters, q_limit: float, step: str) -> None:
    """Check the metrics of an update, and the networks after its last step, which no metric covers.

    Args:
        metrics: metrics of the update, with ``q_abs_max``.
        actor: parameters of the policy after the update.
        q_limit: largest magnitude of a value estimate that is no divergence.
        step: name of the update, for messages.

    Raises:
        DivergenceError: naming the first value that is not finite, or a value estimate that is too large.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise DivergenceError(f"training diverged: {name} is {value} at {step}. {ADVICE}")
    if metrics["q_abs_max"] > q_limit:
        raise DivergenceError(
            f"training diverged: a value estimate has magnitude {metrics['q_abs_max']:.4g} at {step}, "
            f"agent.q_limit is {q_limit:g}. {ADVICE} If returns are that large, raise agent.q_limit."
        )
    # On the CPU the Euclidean norm is many times faster than the largest magnitude, but the squares may overflow.
    for order in (2, math.inf):
        norms = torch._foreach_norm(list(actor.values()), order)  # one kernel on a GPU
        finite = torch.stack(norms).isfinite().tolist()
        if all(finite):
            return
    name = next(name for name, is_finite in zip(actor, finite, strict=True) if not is_finite)
    raise DivergenceError(f"training diverged: {name} is not finite after {step}. {ADVICE}")
