"""The learner of a run whose actors are processes of their own."""

import dataclasses
import json
import shutil
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ..app import AsyncRuntimeConfig, agent_facts, build_acting_agent, has_robot, needed_packages, section
from ..core import ConfigError, DivergenceError, EnvSpec, Interruption, State, Transition, require, write_durably
from ..learner import Checkpoint
from ..operators.takeover import check_device, has_person
from ..replay import Intake
from ..telemetry import Command
from ..transport import SOCKET, ActorView, LearnerServer, TransportConfig, new_socket_folder, wanted_actors
from .actor_processes import ActorGroup, ActorProcesses
from .async_operators import AsyncOperators
from .base import Training
from .earnings import Earnings
from .evaluations import BackgroundEvaluations
from .pace import Ratios, allowed_steps, may_update

IDLE_SECONDS = 0.05
REPORT_SECONDS = 1.0
REMEMBERED_POLICIES = 1000


@dataclasses.dataclass
class _OpenEpisode:
    """An actor's episode so far: session and number, what it earned, length."""

    number: tuple[int, int]
    earnings: Earnings
    length: int = 0


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """What is being evaluated: the policy of the checkpoint of ``step``, learned from ``learned`` steps."""

    step: int
    updates: int
    learned: float


class AsyncTraining(Training):
    """Learns from what actors send, and keeps the ratio of learner steps to environment steps in bounds.

    What differs from a run in one process: steps come through an :class:`Intake`, which stores them durably before
    actors forget them. So a checkpoint holds no replay; a resumed run finds in its store every step that was ever
    acknowledged, and makes up for updates that the checkpoint lacks. Steps of episodes that were open are with their
    actors until they come again, so it may go on from a step before the checkpoint's. Such a run is not deterministic.

    It learns while a copy of its policy is evaluated. The checkpoint of that policy is written when the evaluation
    begins and is given its score when it ends. A run that is interrupted in between makes the evaluation anew when it
    goes on; one whose evaluation is good enough goes back to what was evaluated, and ends.
    """

    _operators: AsyncOperators
    _evaluations: BackgroundEvaluations

    def __init__(self, config: DictConfig, folder: Path, interruption: Interruption) -> None:
        self.runtime: AsyncRuntimeConfig = section(config, "runtime")
        self._ratios = Ratios(self.runtime.min_ratio, self.runtime.max_ratio)
        self._wire = ExitStack()  # undoes what was done so far to have steps come in
        self._socket_folder: Path | None = None
        self._ended = False
        self._waited_seconds = 0.0
        self._reported = 0.0
        self._published: OrderedDict[int, float] = OrderedDict()
        self._newest: dict[str, Transition] = {}
        self._acted: set[str] = set()
        self._episodes: dict[str, _OpenEpisode] = {}
        self._blocked = ""  # why no step is taken in, as people were told
        self._snapshot: _Snapshot | None = None
        self._learned_evaluation = 0.0
        self._evaluated_step = 0
        if self.runtime.actors:
            check_device(config, "actors that the learner starts have none")
        for single, there in (("robot", has_robot(config)), ("person", has_person(config))):
            actors = self.runtime.actors
            require(not there or actors <= 1, "runtime.actors", f"0 or 1 with a {single}: there is one", actors)
        try:
            if self.runtime.transport.address is None:
                # They take seconds to start, in which demonstrations are recorded, and knock until the wire is open.
                self._socket_folder = new_socket_folder()
                self._wire.callback(shutil.rmtree, self._socket_folder, ignore_errors=True)
                self._start_actors(config, folder, f"unix:{self._socket_folder / SOCKET}")
            super().__init__(config, folder, interruption)
            self._saved_step = self.step
        except BaseException:
            self._wire.close()
            raise

    # --- beginning and end -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """As :meth:`Training._begin`, while actors may join."""
        self._open_wire()
        super()._begin()

    def _go_on(self, checkpoint: Checkpoint) -> None:
        super()._go_on(checkpoint)
        if (self._evaluations.steps_to_95 or 0) > self.step:
            self._evaluations.steps_to_95 = None  # the log ends before that evaluation
        self._open_wire()

    def _open_wire(self) -> None:
        """Let actors join, and start those of this machine where that was not done. They wait for a policy."""
        transport = self.runtime.transport
        if self._socket_folder is not None:
            transport = dataclasses.replace(transport, address=f"unix:{self._socket_folder / SOCKET}")
        paused = self._operators.was_paused
        self.server = LearnerServer(
            transport, self._run_identity(), self.parts.backend.spec, self.intake, self._differences, paused=paused
        )
        self._wire.callback(self.server.close)
        self.logger.message(f"Actors may join at {self.server.address} (run {self.server.run})")
        if paused:
            self.logger.message("The run is paused, as a person left it: no episode begins until resume is sent")
        self._operators.attend(self.server, self.logger.message)
        if self._socket_folder is None:
            self._start_actors(self.config, self.folder, self.server.address)
        else:
            self._wire.callback(self.actors.stop)  # now before the server closes: they hand over what they hold

    def _start_actors(self, config: DictConfig, folder: Path, address: str) -> None:
        transport = dataclasses.replace(self.runtime.transport, address=address)
        self.actors = self._make_actors(config, folder, transport)
        self._wire.callback(self.actors.stop)
        self.actors.resize(self.runtime.actors)

    def _make_actors(self, config: DictConfig, folder: Path, transport: TransportConfig) -> ActorGroup:
        """Return what starts actors; none does yet."""
        settings, allow = self.runtime, needed_packages(config)
        # They may be started before there is a logger.
        say = lambda text: self.logger.message(text)  # noqa: E731
        return ActorProcesses(folder, transport, settings.restarts, settings.real_time_factor, allow, say)

    def _run_identity(self) -> str:
        """Return what tells this run from all others, the same after it is resumed."""
        file = self.folder / "run_id"
        if not file.exists():
            write_durably(file, uuid.uuid4().hex.encode())
        return file.read_text()

    def _differences(self, facts: Mapping[str, Any]) -> list[str]:
        """Return in what an actor that wants to join differs from this learner."""
        # Through JSON, as the actor's went: a tuple is no other value than a list.
        spec, ours = json.loads(json.dumps([self.parts.backend.spec.to_json(), agent_facts(self.config.agent)]))
        lines = EnvSpec.from_json(spec).differences(EnvSpec.from_json(facts["spec"]))
        theirs = facts["agent"]
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                lines.append(f"agent.{key}: expected {ours.get(key)}, found {theirs.get(key)}")
        return lines

    def run(self) -> int:
        """As :meth:`Training.run`; actors have ended when it returns. Where it fails those elsewhere wait for it."""
        self._publish()
        self._guide()
        code = super().run()
        self._end_actors()
        return code

    def close(self) -> None:
        """End an evaluation, the actors that the learner started, and the wire, and free the store."""
        self._evaluations.close()
        self._wire.close()
        super().close()

    def _end_actors(self) -> None:
        """Tell actors that the run is over, and take in what they still hold."""
        if self._ended:
            return
        self._ended = True
        deadline = time.monotonic() + self.runtime.finish_seconds
        self.server.guide(room=0, stop=True, env_steps=self.step)
        while time.monotonic() < deadline and (self.actors.running() or self._present_actors()):
            self._take()
            time.sleep(IDLE_SECONDS)
        self.actors.stop()
        if not self.intake.flush(max(deadline - time.monotonic(), 1.0)):
            self.logger.message(f"Not everything is stored: {self.intake.blocked()}. The actors' spools keep it.")
        self._take()
        self._tell_progress()
        self._report(time.monotonic())

    def _present_actors(self) -> list[str]:
        """Return the actors that are connected and have not ended their session: they may hold steps."""
        return [name for name, actor in self.server.actors().items() if actor.is_present]

    def _make_evaluations(self) -> BackgroundEvaluations:
        make_copy = partial(build_acting_agent, self.config.agent, self.parts.backend.spec, self.config.seed)
        return BackgroundEvaluations(self.settings, self.parts, self.logger, self._interruption, make_copy)

    # --- experience --------------------------------------------------------------------------------------------------

    def _open_experience(self) -> None:
        if self.parts.resets is not None and self.parts.resets.learns:
            raise ConfigError("reset=learned needs runtime=local: its agent learns beside the task's")
        self._operators = AsyncOperators(self.live, self.learner, self.folder)
        self.intake = Intake(self.folder / "replay", self.parts.backend.spec)
        self._wire.callback(self.intake.close)
        self.intake.recover(self.online)
        self.online.end_episodes()  # only whole ones are stored: what goes on of the last one comes as another segment

    def _save_experience(self, parts: dict[str, State], facts: dict[str, Any]) -> None:
        # Steps are stored as they come.
        facts |= {"learned_evaluation": self._learned_evaluation, "evaluated_step": self._evaluated_step}

    def _load_experience(self, checkpoint: Checkpoint) -> None:
        self.step = self.intake.totals().stored
        self._learned_evaluation = checkpoint.facts.get("learned_evaluation", self._learned())
        self._evaluated_step = checkpoint.facts.get("evaluated_step", 0)
        if self._evaluated_step > self.step:  # the log ends before it: it is made anew, at once
            self._learned_evaluation, self._evaluated_step = 0.0, 0

    def _load(self, checkpoint: Checkpoint) -> None:
        super()._load(checkpoint)
        if self._scorer is not None:
            # Computed again, by modules that may have learned from these steps before: the store keeps no such terms.
            # Where a person or a model has not answered yet the episode is held back, and actors do not wait.
            self.online.score_held(self._scorer, online=True)
            self._scorer.load(checkpoint.parts["reward"])  # what these steps told it, it knew: not once more

    def _experience_summary(self) -> dict[str, Any]:
        totals = self.intake.totals()
        practice = {
            name: {key.removeprefix("practice/"): value for key, value in actor.practice.items()}
            for name, actor in self._practising()
        }
        return {
            "actors": {
                "received": totals.taken,
                "stored": totals.stored,
                "refused": totals.refused,
                "in_open_episodes": totals.taken - totals.stored - totals.refused,
                "duplicates": totals.duplicates,
                "still_with_actors": _spooled(self.server.actors().values()),
                "restarts": self.actors.restarts,
            },
            "learner_steps_per_env_step": self._ratio(),
            "learner_waited_seconds": self._waited_seconds,
            **({"practice": practice} if practice else {}),
        }

    def _practising(self) -> list[tuple[str, ActorView]]:
        """Return the actors whose robots bring themselves back after episodes."""
        return [(name, actor) for name, actor in sorted(self.server.actors().items()) if actor.practice]

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _loop(self) -> str:
        status = self._learn_until_done()
        if status != "interrupted" and self._snapshot is not None:
            self._await_evaluation()
            if not self._evaluations.is_done():
                status = "interrupted"
            elif self._end_evaluation():
                status = "reached"
        self._end_actors()
        return status

    def _learn_until_done(self) -> str:
        settings = self.settings
        if not self.parts.agent.config.learns_online:
            return "completed"
        while True:
            if (status := self._asked_status()) is not None:
                return status
            doing = "training" if self._snapshot is None else "training and evaluating"
            self._tell("paused" if self.server.paused else doing)
            self._guide()  # before an update, which may take its time: the first more than others
            if may_update(self.learner.updates, self._learnable(), self._ratios) and self._can_learn():
                self._update()
            elif self.step >= settings.env_steps:
                return "completed"
            else:
                began = time.monotonic()
                self.intake.wait(IDLE_SECONDS)
                self._waited_seconds += time.monotonic() - began
                if self._scorer is not None:
                    self._score(self._scorer)  # somebody may have answered; the episode was logged before
            now = time.monotonic()
            if now - self._reported >= REPORT_SECONDS:
                self._report(now)
                self.actors.watch(self._acted)
            if self._evaluate_or_save():
                return "reached"

    def _update(self) -> None:
        metrics = self._learner_step()
        updates = self.learner.updates
        self._policy_version = updates
        if updates % self.runtime.publish_interval == 0:
            self._publish()
        if metrics and self.logger.due(updates):
            self.logger.log("train", self.step, **metrics)
        self._tell_progress()

    def _tell_progress(self) -> None:
        total, updates = self.settings.env_steps, self.learner.updates * self.parts.agent.config.update_to_data
        self.logger.progress(min(self.step, total), total, updates)

    def _roll_back(self, error: DivergenceError) -> None:
        """As :meth:`Training._roll_back`; actors need not wait for another policy."""
        super()._roll_back(error)
        self._publish()

    def _take(self) -> None:
        """Put what arrived into the replay."""
        for transition in self.intake.take():
            episode = self._episode_of(transition)
            episode.earnings.add(self._insert(transition), self.sampler.gamma)
            episode.length += 1
            self.step += 1
            self._safety.count(transition.verdict)
            self._operators.note_step(transition.actor, transition.verdict)
            self._newest[transition.actor] = transition
            self._acted.add(transition.actor)
            if transition.terminated or transition.truncated:
                self._end_episode(transition.actor, transition.success, transition.verdict.stop_reason)

    def _episode_of(self, transition: Transition) -> _OpenEpisode:
        """Return the episode that a step is part of; another one of its actor ends there: it was stopped."""
        name, number = transition.actor, (transition.session, transition.episode)
        if name in self._episodes and self._episodes[name].number != number:
            self.online.end_episodes(name)
            if self._scorer is not None:
                self._episodes[name].earnings.add(self._score(self._scorer), self.sampler.gamma)
            self._end_episode(name, None, "left")
        return self._episodes.setdefault(name, _OpenEpisode(number, self._no_earnings()))

    def _end_episode(self, name: str, success: bool | None, stopped: str | None) -> None:
        """Log an actor's episode."""
        episode = self._episodes.pop(name)
        self._watch(episode.number[1], episode.earnings, episode.length, success)
        actor = self.server.actors().get(name)
        if stopped:
            self._operators.note_stop(name, stopped, self.step)
        self.logger.log(
            "episode",
            self.step,
            **episode.earnings.metrics(),
            length=episode.length,
            success=success,
            actor=name,
            stopped=stopped,
            **self._safety.metrics(),
            **(actor.practice if actor else {}),
        )

    def _learnable(self) -> int:
        """Return the environment steps that learner steps may be done for."""
        starts = max(self.parts.agent.config.learning_starts, 1)
        return max(min(self.step, self.settings.env_steps) - starts + 1, 0)

    def _learned(self) -> float:
        """Return the environment steps that have been learned from as far as ``max_ratio`` wants."""
        starts = max(self.parts.agent.config.learning_starts, 1)
        return min(self.step, starts - 1 + self.learner.updates / self.runtime.max_ratio)

    def _ratio(self) -> float | None:
        learnable = self._learnable()
        return self.learner.updates / learnable if learnable else None

    def _evaluate_or_save(self) -> bool:
        """Begin and end evaluations, and write checkpoints, when they are due; return whether the run is to end.

        While an evaluation goes on no checkpoint is due: it would lack what the evaluation comes to.
        """
        interval = self.settings.evaluation_interval
        latest = self._learned_evaluation if self._snapshot is None else self._snapshot.learned
        is_due = bool(interval) and self._learned() // interval > latest // interval
        if is_due and self._snapshot is not None:
            self._await_evaluation()
        if self._evaluations.is_done() and self._end_evaluation():
            return True
        if self._snapshot is None and (is_due or self.step - self._saved_step >= self.settings.checkpoint_interval):
            self._saved_step = self.step
            self._if_possible(self._save)
            if is_due:
                self._begin_evaluation()
        return False

    def _begin_evaluation(self) -> None:
        step, updates = self.step, self.learner.updates
        self._evaluations.begin(step, updates, self.config.seed, self.parts.agent.policy_state())
        self._snapshot = _Snapshot(step, updates, self._learned())

    def _await_evaluation(self) -> None:
        """Wait until the evaluation is done that goes on, or the run is interrupted."""
        self._tell("evaluating")
        if self.runtime.min_ratio > 0:  # nothing is learned meanwhile
            self.server.guide(room=0, stop=False, env_steps=self.step)
        while not self._evaluations.is_done() and self._interruption.signal is None:
            time.sleep(IDLE_SECONDS)

    def _end_evaluation(self) -> bool:
        """Take note of the evaluation that is done; return whether it was good enough to end the run."""
        assert self._snapshot is not None
        snapshot, self._snapshot = self._snapshot, None
        self._reached = self._evaluations.finish()
        self._learned_evaluation, self._evaluated_step = snapshot.learned, snapshot.step
        facts = self._evaluations.state(snapshot.updates)
        facts |= {"reached": self._reached, "learned_evaluation": snapshot.learned, "evaluated_step": snapshot.step}
        self._if_possible(partial(self._checkpoints.amend, snapshot.step, facts))
        if self._reached:
            self._if_possible(partial(self._go_back, snapshot))
        return self._reached

    def _go_back(self, snapshot: _Snapshot) -> None:
        """Forget what was learned since ``snapshot``: the run ends with what was found good enough."""
        checkpoint = self._checkpoints.load(snapshot.step, only=("agent",))
        self.parts.agent.load(checkpoint.parts["agent"])
        self.learner.updates = self._policy_version = snapshot.updates

    def _guide(self) -> None:
        self._take()
        room = self.settings.env_steps - self.step
        if self._can_learn():  # else they are to go on until an episode is judged
            starts = max(self.parts.agent.config.learning_starts, 1)
            steps, actors = self.step - starts + 1, len(self._present_actors())
            room = min(room, allowed_steps(self.learner.updates, steps, self._ratios, actors))
        self.server.guide(room=room, stop=False, env_steps=self.step)

    def _obey(self, command: Command) -> None:
        if command.name == "checkpoint" and self._snapshot is not None and self._snapshot.step == self.step:
            return  # there is one of this step, which is to have its score
        super()._obey(command)
        wanted = wanted_actors(command.name)
        if wanted is None:
            return
        if wanted > 1 and has_robot(self.config):
            self.logger.message("There is one robot: it has one actor at most")
        else:
            self.actors.resize(wanted)

    def _publish(self) -> None:
        self._published[self.learner.updates] = time.monotonic()
        if len(self._published) > REMEMBERED_POLICIES:
            self._published.popitem(last=False)
        self.server.publish(self.learner.updates, self.parts.agent.policy_state())

    def _report(self, now: float) -> None:
        """Log counters of the wire and how old the acting policies are; tell people what happened."""
        self._reported = now
        for note in self.server.take_notes():
            self.logger.message(note)
        blocked = self.intake.blocked()
        if blocked != self._blocked:
            told = f"No steps are taken in: {blocked}. Actors keep theirs" if blocked else "Steps are taken in again"
            self.logger.message(told)
            self._blocked = blocked
        totals, actors = self.intake.totals(), self.server.actors().values()
        stale = [transition for transition in self._newest.values() if transition.policy_version in self._published]
        self._newest = {}
        if doing := [f"{name} {actor.practice_state}" for name, actor in self._practising()]:
            self.logger.status(", ".join(doing))
        self.logger.log(
            "runtime",
            self.step,
            actors=sum(actor.is_present for actor in actors),
            stored=totals.stored,
            refused=totals.refused,
            duplicates=totals.duplicates,
            open=totals.taken - totals.stored - totals.refused,
            spooled=_spooled(actors),
            held_seconds=sum(actor.held_seconds for actor in actors),
            refused_policies=sum(actor.refused_policies for actor in actors),
            refused_requests=sum(self.server.refusals.values()),
            blocked=blocked or None,
            ratio=self._ratio(),
            waited_seconds=self._waited_seconds,
            staleness_steps=max((self.learner.updates - t.policy_version for t in stale), default=None),
            staleness_seconds=max((now - self._published[t.policy_version] for t in stale), default=None),
        )


def _spooled(actors: Iterable[ActorView]) -> int:
    """Return how many steps wait in the spools; those that left have handed over all."""
    return sum(actor.spooled for actor in actors if not actor.left)
