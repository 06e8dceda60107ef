"""What a person may say about the episode that is going on."""

from dataclasses import replace

from robo_rl.core import Transition

ORDERS = ("reset", "success")
SUCCESS_TERM = "success"


def ended_by(transition: Transition, order: str) -> Transition:
    """Return ``transition`` as the last of its episode, because a person said so.

    ``reset`` cuts the episode. ``success`` says that the task is solved: the episode terminates with success, and a
    reward term of that name becomes 1. Where the task itself tells success a person does not: the episode is cut.

    Args:
        transition: the step just taken.
        order: one of :data:`ORDERS`.
    """
    if transition.terminated or transition.truncated:
        return transition
    if order != "success" or transition.success is not None:
        return replace(transition, truncated=True)
    rewards = dict(transition.rewards)
    if SUCCESS_TERM in rewards:
        rewards[SUCCESS_TERM] = 1.0
    return replace(transition, terminated=True, success=True, rewards=rewards)
