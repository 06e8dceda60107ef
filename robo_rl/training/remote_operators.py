"""Operators of an actor process: a person beside its robot, and people whose orders come from the learner process."""

import time

from ..actor import ActionChoice, Actor
from ..core import Observation, SafetyStop, Transition
from ..operators.takeover import Takeover
from ..transport import LearnerLink

WAIT_SECONDS = 0.005


class RemoteOperators:
    """Operators of one actor.

    Args:
        actor: operators may end its episodes.
        link: delivers their orders, and passes a request to end the run to the learner.
        takeover: lets a person act instead of the policy; None: no person does.
    """

    def __init__(self, actor: Actor, link: LearnerLink, takeover: Takeover | None) -> None:
        self._actor, self._link, self._takeover = actor, link, takeover

    @property
    def paused(self) -> bool:
        """Whether the person has paused the actor."""
        return self._takeover is not None and self._takeover.paused

    def begin_episode(self) -> bool:
        """Return whether the new episode may take its first step."""
        if self._takeover is None or self._takeover.begin_episode():
            return True
        self._end_run()
        return False

    def choose(self, observation: Observation, choice: ActionChoice) -> ActionChoice:
        """Return the action to execute, given the policy's ``choice``."""
        return choice if self._takeover is None else self._takeover(observation, choice)

    def mark(self, transition: Transition) -> Transition:
        """Return the step that was just taken with the operators' marks; they may make it the last of its episode."""
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
        """Wait briefly between episodes, and read the person's keys meanwhile."""
        if self._takeover is None:
            time.sleep(WAIT_SECONDS)
            return
        self._takeover.wait(state)
        self._end_run()

    def report_stop(self, stop: SafetyStop) -> None:
        """Report to the person why the robot was stopped, and wait briefly."""
        if self._takeover is not None:
            self._takeover.wait(f"stopped: {stop}", alarm=True)
            self._end_run()

    def _end_run(self) -> None:
        """Request that the learner end the run, if the person has pressed the button for it."""
        assert self._takeover is not None
        if not self._takeover.stops:
            return
        self._takeover.stops = False
        self._link.end_run()
        print(f"Asked the learner to end run {self._link.run}", flush=True)
