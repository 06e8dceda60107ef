"""Steps that actors send to a learner process: those in its store, and newly arrived ones."""

from dataclasses import dataclass
from typing import Any

from ..core import State, Transition, finite_number, whole_number
from ..learner import Checkpoint
from ..replay import Intake
from .async_operators import AsyncOperators
from .earnings import Earnings
from .episodes import Episodes
from .pace import Pace
from .run import Run
from .schedule import Evaluated
from .wire import Wire


class StoredSteps:
    """Steps that a resumed run finds in its store, because its checkpoints contain none.

    Attributes:
        evaluated: progress of the run at its last evaluation.
    """

    def __init__(self, run: Run, intake: Intake, pace: Pace) -> None:
        self._run, self._intake, self._pace = run, intake, pace
        self.evaluated = Evaluated()

    def save(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        """Add the progress at the last evaluation to a checkpoint; the steps themselves are stored when they arrive."""
        facts |= self.evaluated.state()

    def load(self, checkpoint: Checkpoint) -> None:
        """Resume from the stored steps, which may be fewer or more than at the time of the checkpoint."""
        facts, scorer = checkpoint.facts, self._run.experience.scorer
        self._run.step = self._intake.totals().stored
        learned = finite_number(facts.get("learned_evaluation", self._pace.learned))
        step = whole_number(facts.get("evaluated_step", 0))
        if step > self._run.step:  # the log ends before this evaluation, so it is repeated at once
            learned, step = 0.0, 0
        self.evaluated.learned, self.evaluated.step = learned, step
        if scorer is not None:
            # Reward terms are not in the store and are computed again, by modules that may have learned from these
            # steps. An episode that a person or a model has not judged yet is held back, and actors do not wait for it.
            self._run.experience.score()
            scorer.load(checkpoint.parts["reward"])  # last, so that the module does not learn from these steps twice


@dataclass
class _OpenEpisode:
    """An actor's episode so far: session and number, return, length."""

    number: tuple[int, int]
    earnings: Earnings
    length: int = 0


class Arrivals:
    """Episodes of the actors, from the steps that arrive.

    Args:
        run: the run.
        wire: delivers the steps.
        operators: are notified of verdicts and stops.

    Attributes:
        actors: names of the actors that have taken a step.
    """

    def __init__(self, run: Run, wire: Wire, operators: AsyncOperators) -> None:
        self._run, self._wire, self._operators = run, wire, operators
        self._log = Episodes(run)
        self.actors = set[str]()
        self._newest: dict[str, Transition] = {}
        self._episodes: dict[str, _OpenEpisode] = {}

    def take(self) -> None:
        """Move the steps that have arrived into the replay buffer."""
        for transition in self._wire.intake.take():
            episode = self._episode_of(transition)
            self._log.insert(transition, episode.earnings)
            episode.length += 1
            self._run.step += 1
            self._run.safety.count(transition.verdict)
            self._operators.note_step(transition.actor, transition.verdict)
            self._newest[transition.actor] = transition
            self.actors.add(transition.actor)
            if transition.terminated or transition.truncated:
                self._end(transition.actor, transition.success, transition.verdict.stop_reason)

    def take_newest(self) -> list[Transition]:
        """Return the newest step of each actor that has taken one since the last call."""
        newest, self._newest = self._newest, {}
        return list(newest.values())

    def _episode_of(self, transition: Transition) -> _OpenEpisode:
        """Return the episode of a step. Another open episode of the same actor was stopped, and ends at this point."""
        name, number = transition.actor, (transition.session, transition.episode)
        if name in self._episodes and self._episodes[name].number != number:
            self._log.cut(self._episodes[name].earnings, name)
            self._end(name, None, "left")
        return self._episodes.setdefault(name, _OpenEpisode(number, self._run.experience.new_earnings()))

    def _end(self, name: str, success: bool | None, stopped: str | None) -> None:
        """Log an actor's episode."""
        episode, actor = self._episodes.pop(name), self._wire.server.actors().get(name)
        if stopped:
            self._operators.note_stop(name, stopped, self._run.step)
        practice = actor.practice if actor else {}
        self._log.end(episode.number[1], episode.length, episode.earnings, success, stopped, practice, actor=name)
