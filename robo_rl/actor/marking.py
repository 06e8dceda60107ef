"""Marking of an episode's last transition by a person."""

from dataclasses import replace

from robo_rl.core import Transition

SUCCESS_TERM = "success"


def marked(transition: Transition, button: str) -> Transition:
    """Return ``transition`` as the last one of its episode, after a person pressed ``button``.

    With ``success``, the task is solved: the episode terminates, and a reward term named ``success`` is set to 1. With
    ``failure``, the task is not solved, and the episode is truncated. Any other button truncates the episode without an
    outcome. If the task itself reports success, every button only truncates the episode. A transition that has already
    ended its episode is returned unchanged.
    """
    if transition.terminated or transition.truncated:
        return transition
    if transition.success is not None or button not in ("success", "failure"):
        return replace(transition, truncated=True)
    if button == "failure":
        return replace(transition, truncated=True, success=False)
    rewards = {name: 1.0 if name == SUCCESS_TERM else value for name, value in transition.rewards.items()}
    return replace(transition, terminated=True, success=True, rewards=rewards)
