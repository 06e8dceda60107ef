"""People of an actor whose learner is elsewhere: one beside its robot, and those whose orders come by the wire."""

import time

from ..actor import ActionChoice, Actor
from ..core import Observation, SafetyStop, Transition
from ..operators.takeover import Takeover
from ..transport import LearnerLink

WAIT_SECONDS = 0.005


class RemoteOperators:
    """People of one actor.

    Args:
        actor: whose episodes they end.
        link: brings their orders, and takes to the learner that the run is to end.
        takeover: the person who may take over; None: nobody does.
    """

    def __init__(self, actor: Actor, link: LearnerLink, takeover: Takeover | None) -> None:
        self._actor, self._link, self._takeover = actor, link, takeover

    @property
    def paused(self) -> bool:
        """Whether the person wants no step to be taken now."""
        return self._takeover is not None and self._takeover.paused

    def begin_episode(self) -> bool:
        """Return whether the episode that was begun may go on to its first step."""
        if self._takeover is None or self._takeover.begin_episode():
            return True
        self._end_run()
        return False

    def choose(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return what is to be done, where the policy would do ``choice``."""
        return choice if self._takeover is None else self._takeover(observation, choice)

    def mark(self, transition: Transition) -> Transition:
        """Return the step just taken as people have it: perhaps as the last of its episode."""
        if self._takeover is not None:
            transition = self._takeover.mark(transition)
            if transition.terminated or transition.truncated:
                self._actor.abandon_episode()
            self._end_run()
        for order in self._link.take_orders():
            print(f"{order} at step {transition.sequence}", flush=True)
            transition = self._actor.end_episode(transition, order)
        return transition

    def wait(self, state: str) -> None:
        """Spend a moment between episodes; the person may say something meanwhile."""
        if self._takeover is None:
            time.sleep(WAIT_SECONDS)
            return
        self._takeover.wait(state)
        self._end_run()

    def tell_stop(self, stop: SafetyStop) -> None:
        """Tell the person why the robot was stopped, and spend a moment."""
        if self._takeover is not None:
            self._takeover.wait(f"stopped: {stop}", alarm=True)
            self._end_run()

    def _end_run(self) -> None:
        """Ask the learner to end the run where the person wants that."""
        assert self._takeover is not None
        if not self._takeover.stops:
            return
        self._takeover.stops = False
        self._link.end_run()
        print(f"The learner is asked to end run {self._link.run}", flush=True)
