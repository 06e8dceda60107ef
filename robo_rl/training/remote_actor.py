"""Actor process of a run whose learner is in another process."""

import os
import time
from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from ..actor import Actor, EpisodeRefusedError, SceneView, Spool, SpoolFullError, View
from ..app import (
    ActorConfig,
    agent_facts,
    build_acting_agent,
    build_resets,
    find_stop_button,
    has_robot,
    make_intervention,
    scene_limits,
)
from ..core import (
    Clock,
    ConfigError,
    EnvBackend,
    Interruption,
    MonotonicClock,
    ResetController,
    SafetyStop,
    SpecError,
    Transition,
    derive_seed,
    listening,
    section,
)
from ..operators.takeover import Takeover
from ..safety import ACTION_NOT_FINITE
from ..transport import LearnerLink, RecordEncoder, TransportConfig
from .collector import Collector
from .received_policies import ReceivedPolicies
from .remote_operators import WAIT_SECONDS, RemoteOperators
from .safety_record import SafetyRecord

FULL_SECONDS = 0.2
BLOCKED_NS = 10_000_000_000
"""Shortest interval between reports that the learner accepts no steps [ns], because rate limits come and go."""


class RemoteActor:
    """Acts with the newest policy that it received, and puts every step into the spool, from which the link sends it.

    Args:
        config: the configuration, as in configs/actor.yaml.
        backend: robot or simulator.
        interruption: checked between two steps.
        takeover: lets a person act instead of the policy; None: no person does.
    """

    def __init__(
        self, config: DictConfig, backend: EnvBackend, interruption: Interruption, takeover: Takeover | None = None
    ) -> None:
        self._config = config
        self._settings: ActorConfig = section(config, "actor")
        self._backend = backend
        self._interruption = interruption
        self._takeover = takeover
        self._link: LearnerLink | None = None

    def run(self) -> int:
        """Act until the run ends, this actor is interrupted, or its parent is gone; return the exit code."""
        config, settings, facts = self._config, self._settings, {"agent": agent_facts(self._config.agent)}
        with Spool(Path(settings.spool), settings.spool_bytes, settings.sync_seconds) as spool:
            transport: TransportConfig = section(config, "transport")
            link = LearnerLink(transport, settings.name, self._backend.spec, facts, spool, spool.run, self._notify)
            with link, listening(link.notify):
                self._link = link
                if spool.damaged_bytes:
                    self._notify(f"{spool.path}: {spool.damaged_bytes} bytes of steps were lost in a power cut")
                if link.join(spool.newest_session, lambda: must_end(settings, self._interruption)):
                    self._begin_session(link, spool)
                    link.start()
                    print(f"{settings.name} joined run {link.run} (session {link.session})", flush=True)
                    session = ActingSession(config, self._backend, self._interruption, link, spool, self._takeover)
                    try:
                        session.run()
                    finally:
                        self._backend.stop("the actor ends")
                    session.finish()
        return 0 if self._interruption.signal is None else 128 + self._interruption.signal

    def _notify(self, text: str) -> None:
        """Report a message to operators at this machine and at the learner."""
        print(text, flush=True)
        if self._link is not None:
            self._link.notify(text)

    def _begin_session(self, link: LearnerLink, spool: Spool) -> None:
        """Bind the spool to the run and start the session in it, once the disk has room.

        Raises:
            SpoolFullError: if the actor has to end before there is room.
        """
        reported = False
        while True:
            try:
                spool.bind(link.run)
                spool.begin_session(link.session)
                return
            except SpoolFullError as error:
                if not reported:
                    self._notify(f"no step is taken: {error}")
                reported = True
                if must_end(self._settings, self._interruption):
                    raise
                time.sleep(FULL_SECONDS)


def must_end(settings: ActorConfig, interruption: Interruption) -> bool:
    """Return whether an actor was interrupted, or its parent process is gone."""
    return interruption.signal is not None or is_orphan(settings)


def is_orphan(settings: ActorConfig) -> bool:
    """Return whether the parent process of an actor is gone."""
    return settings.parent is not None and os.getppid() != settings.parent


class ActingSession:
    """Steps of an actor from joining a run until leaving it.

    A robot never waits within an episode, neither for the learner nor for the network. A simulator, whose state does
    not change meanwhile, waits if the learner is behind. While the learner cannot be reached, the actor continues with
    its current policy, and a simulator runs no faster than a real robot. The limit ``actor.real_time_factor`` always
    applies. An actor that was held remains held, because a person may have paused the run.

    Args:
        config: the configuration, as in configs/actor.yaml.
        backend: robot or simulator.
        interruption: checked between two steps.
        link: connection to the learner process, already joined.
        spool: spool of the session.
        takeover: lets a person act instead of the policy; None: no person does.
        clock: keeps the pace of a simulator.
    """

    def __init__(
        self,
        config: DictConfig,
        backend: EnvBackend,
        interruption: Interruption,
        link: LearnerLink,
        spool: Spool,
        takeover: Takeover | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings: ActorConfig = section(config, "actor")
        self._backend, self._interruption, self._link, self._spool = backend, interruption, link, spool
        self._clock = MonotonicClock() if clock is None else clock
        self._world_waits = takeover is None and not has_robot(config)
        self._factor = None if has_robot(config) else self._settings.real_time_factor
        self._view, self._scene = View(backend), SceneView(backend, scene_limits(config.safety, backend.robot))
        self._encoder = RecordEncoder(backend.spec, section(config, "transport").image_compression)
        self._safety = SafetyRecord()
        # Random numbers follow from the step number and the session, so no two sessions share them.
        name, seed = self._settings.name, derive_seed(config.seed, "session", link.session)
        self._practice_state = ""
        self._resets = self._make_resets(config, derive_seed(seed, "actor", name), takeover)
        self._actor = Actor(backend, seed, name, link.session, self._resets)
        self._agent = build_acting_agent(config.agent, backend.spec, derive_seed(seed, "actor", name))
        link.receive(self._agent.policy_state())
        self._policies = ReceivedPolicies(self._agent, backend.spec, self._notify)
        self._people = RemoteOperators(self._actor, link, takeover)
        expert = make_intervention(section(config, "intervention"), backend, derive_seed(seed, "intervention", name))
        self._collector = Collector(self._actor, backend, self._agent, self._people, expert, seed, (name,))
        self._produced = 0
        self._held_seconds = 0.0
        self._blocked, self._blocked_ns = "", -BLOCKED_NS  # last report about the learner, and its time
        self._button = find_stop_button(config)
        self._waited_for = ""  # reason of the last stop that was reported

    def _make_resets(self, config: DictConfig, seed: int, takeover: Takeover | None) -> ResetController | None:
        """Return the controller that begins all episodes but the first; None if seeds do."""
        resets = build_resets(config.reset, self._backend, seed)
        if resets is not None:
            if resets.learns:
                raise ConfigError("reset=learned needs runtime=local: its agent learns beside the task's")
            heed = None if takeover is None else takeover.heed
            resets.watch(partial(setattr, self, "_practice_state"), self._notify, heed)
        return resets

    def _notify(self, text: str) -> None:
        """Report a message to operators at this machine and at the learner."""
        print(text, flush=True)
        self._link.notify(text)

    def run(self) -> None:
        """Act until the run ends, this actor is interrupted, or its parent is gone."""
        period_ns = int(1e9 / (self._backend.spec.control_rate * (self._factor or 1.0)))
        while not must_end(self._settings, self._interruption) and not self._link.status.stop:
            began_ns = self._clock.now_ns()
            self._take_policy()
            self._report_blocked()
            if self._actor.is_between_episodes or not self._actor.episode_length:
                self._link.take_orders()  # discarded, because they concerned another episode: this one has no step yet
            if reason := self._why_held():
                self._report()
                self._report_stop_while_held()
                self._people.wait(reason)
                self._held_seconds += (self._clock.now_ns() - began_ns) * 1e-9
                continue
            try:
                if self._actor.is_between_episodes:
                    self._collector.begin_episode()
                    continue
                self._take_step()
            except SafetyStop as stop:
                self._stopped(stop)
                self._report()
                self._people.report_stop(stop)
                continue
            except EpisodeRefusedError as refusal:
                self._notify(f"Episode ended at step {self._produced}: {refusal}")
                self._report()
                continue
            if self._factor is not None or not self._link.status.connected:
                self._clock.sleep_until_ns(began_ns + period_ns)

    def finish(self) -> None:
        """Wait until the learner has stored all steps."""
        self._report()
        if not self._link.finish(0 if is_orphan(self._settings) else self._settings.finish_seconds):
            print(
                f"{self._spool.held_records} steps stay in {self._spool.path} for the next start of this actor",
                flush=True,
            )

    def _take_policy(self) -> None:
        """Act with the newest policy from now on."""
        policy = self._link.take_policy()
        if policy is not None:
            self._policies.take(*policy)
            self._collector.policy_version = self._policies.version

    def _take_step(self) -> None:
        """Take one step of the open episode and put it into the spool.

        Raises:
            SafetyStop: if the robot was stopped before it could take a step.
            EpisodeRefusedError: if the robot has to be brought back before it can take a step.
        """
        link = self._link
        transition = self._collector.take_step(self._produced, max(link.status.env_steps, self._produced))
        if self._resets is not None:
            self._resets.note(transition)
        if link.status.watched:
            link.show(self._view.take(transition.next_observation), self._view.problem)
            self._scene.note(transition.verdict)
            link.show_scene(*self._scene.take(transition.next_observation))
        self._waited_for = ""
        notice = self._safety.count(transition.verdict)
        if notice is not None:
            self._notify(f"At step {self._produced}: {notice}")
        if ACTION_NOT_FINITE in transition.verdict.reasons:
            self._policies.reject(transition.verdict.message)
            self._collector.policy_version = self._policies.version
        elif transition.verdict.stop:
            self._notify(f"Stopped at step {self._produced}: {transition.verdict.message}")
        self._produced += 1
        if not self._keep(transition):
            self._actor.abandon_episode()
        self._report()
        link.wake()

    def _why_held(self) -> str:
        """Return why no step may be taken at present; empty if one may."""
        paused = self._people.paused
        may_wait = self._actor.is_between_episodes or self._world_waits
        status = self._link.status
        # While the learner is unreachable there is no limit, because the spool stores the steps.
        used_up = self._world_waits and status.connected and self._actor.sequence >= status.until
        if self._policies and not used_up and not (may_wait and (status.hold or paused)):
            return ""
        return "paused" if paused else "waiting for the learner"

    def _report_blocked(self) -> None:
        """Report when the learner stops accepting steps, and when it accepts them again."""
        blocked, now = self._link.status.blocked, self._clock.now_ns()
        if blocked == self._blocked or now - self._blocked_ns < BLOCKED_NS:
            return
        self._blocked, self._blocked_ns = blocked, now
        change = f"no steps: {blocked}. They stay in the spool" if blocked else "steps again"
        print(f"The learner accepts {change}", flush=True)

    def _report_stop_while_held(self) -> None:
        """Report a stop that was pressed while no step is taken, for example during a pause."""
        stopped = self._button.reason(waits=True)
        if stopped is not None and stopped[0] != self._waited_for:
            self._notify(f"Stopped: {stopped[1]}")
        self._waited_for = "" if stopped is None else stopped[0]

    def _stopped(self, stop: SafetyStop) -> None:
        """Record an episode that was stopped without a step; wait if the robot has to be released."""
        is_reported = stop.waits and stop.reason == self._waited_for  # possibly reported while no step was taken
        if not is_reported:
            self._notify(f"Stopped: {stop}")
            self._waited_for = stop.reason
        if not (is_reported and self._safety.awaits_release):
            self._safety.stopped(stop)
        if stop.waits:
            time.sleep(WAIT_SECONDS)

    def _keep(self, transition: Transition) -> bool:
        """Append the step to the spool; return False if the robot was stopped to wait for space."""
        try:
            record = self._encoder.encode(transition)
        except SpecError as error:
            self._notify(f"step {transition.sequence} is refused: {error}")
            record = self._encoder.refuse(transition, str(error))
        waited = False
        while True:
            try:
                self._spool.append(transition.sequence, record)
                return not waited
            except SpoolFullError as error:
                if not waited:
                    self._backend.stop("the spool is full")
                    self._notify(f"collecting pauses: {error}")
                waited = True
                if must_end(self._settings, self._interruption):
                    if not self._spool.append_last(transition.sequence, record):
                        print("the current step is lost unless the learner accepts it now", flush=True)
                    return False
                self._link.wake()
                time.sleep(FULL_SECONDS)
                self._held_seconds += FULL_SECONDS

    def _report(self) -> None:
        self._link.report(
            produced=self._produced,
            policy_version=self._policies.version,
            refused_policies=self._policies.refused,
            held_seconds=self._held_seconds,
            practice_state=self._practice_state,
            practice={} if self._resets is None else self._resets.metrics(),
        )
