"""What a person says about the episode that is going on."""

from dataclasses import replace

from robo_rl.core import Transition

SUCCESS_TERM = "success"


def marked(transition: Transition, button: str) -> Transition:
    """Return ``transition`` as the last of its episode, because a person pressed a button.

    ``success``: the task is solved. The episode terminates and a reward term of that name is 1. ``failure``: it is not,
    and the episode is cut. Where the task itself tells success it is believed, and the episode is cut. Anything else
    cuts the episode.
    """
    if transition.terminated or transition.truncated:
        return transition
    if transition.success is not None or button not in ("success", "failure"):
        return replace(transition, truncated=True)
    if button == "failure":
        return replace(transition, truncated=True, success=False)
    rewards = {name: 1.0 if name == SUCCESS_TERM else value for name, value in transition.rewards.items()}
    return replace(transition, terminated=True, success=True, rewards=rewards)
